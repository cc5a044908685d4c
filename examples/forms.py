"""Write a lowered step in each of the forms that the planner reads.

| form | what it is | suffix |
| --- | --- | --- |
| text | StableHLO text with locations, so that argument names survive | .mlir |
| bytecode | MLIR bytecode of the same module | .mlirbc |
| portable | a StableHLO portable artifact (VHLO bytecode, versioned) | .mlirbc |
| export | a serialized `jax.export.Exported` | .jax_export |
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax import export
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

FORMS = ("text", "bytecode", "portable", "export")
SUFFIXES = {"text": ".mlir", "bytecode": ".mlirbc", "portable": ".mlirbc", "export": ".jax_export"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A jitted function and the shapes it is lowered for; nothing is allocated."""

    function: Any
    arguments: tuple[Any, ...]

    def lower(self) -> jax.stages.Lowered:
        """The StableHLO of the step."""
        lowered: jax.stages.Lowered = self.function.lower(*self.arguments)
        return lowered

    def export(self, platform: str | None = None) -> export.Exported:
        """The step as a `jax.export` artifact for `platform`, or for the one at hand."""
        platforms = None if platform is None else [platform]
        return export.export(self.function, platforms=platforms)(*self.arguments)


def serialize(step: Step, form: str, platform: str | None = None) -> bytes:
    """The bytes of `step` in `form` (one of `FORMS`); raises KeyError for another.

    `platform` ("tpu", "cpu", "cuda") is recorded in an export and means nothing to the others.
    """
    writers: dict[str, Callable[[Step], bytes]] = {
        "text": _text,
        "bytecode": _bytecode,
        "portable": _portable,
        "export": lambda step: bytes(step.export(platform).serialize()),
    }
    return writers[form](step)


def _text(step: Step) -> bytes:
    return step.lower().as_text(debug_info=True).encode()


def _module(step: Step) -> ir.Module:
    return step.lower().compiler_ir("stablehlo")


def _bytecode(step: Step) -> bytes:
    out = io.BytesIO()
    _module(step).operation.write_bytecode(out)
    return out.getvalue()


def _portable(step: Step) -> bytes:
    module = _module(step)
    with module.context:
        # Serializing rewrites the module in place, and jax keeps the original for the next call.
        copy = ir.Module.parse(_bytecode(step))
    version = stablehlo.get_current_version()
    return bytes(stablehlo.serialize_portable_artifact(copy, version, True))


def run_cli(description: str, presets: Mapping[str, Callable[[], Step]], default: str) -> int:
    """The command line that the examples share; returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--preset", choices=sorted(presets), default=default, help="which size")
    parser.add_argument("--form", choices=FORMS, default="text", help="which form to write")
    parser.add_argument("--platform", help="what an export is for: tpu, cpu, cuda")
    parser.add_argument("-o", "--output", type=Path, help="where to; default is NAME.SUFFIX here")
    options = parser.parse_args()
    output = options.output or Path(options.preset + SUFFIXES[options.form])
    data = serialize(presets[options.preset](), options.form, options.platform)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(data)
    print(f"{output}: {len(data):,} bytes, {options.preset} as {options.form}", file=sys.stderr)
    return 0
