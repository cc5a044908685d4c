"""Lower the programs and keep them as packed bytecode, and a line of facts about each."""

from __future__ import annotations

import hashlib
import io
import lzma
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jaxlib.mlir import ir, passmanager

from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.zoo.architecture import Architecture
from benchmarks.zoo.model import step_of
from benchmarks.zoo.split import half_by_name
from benchmarks.zoo.variant import Variant

MODULES = Path(__file__).parent / "modules"
PROGRAMS = Path(__file__).parent / "data" / "programs.jsonl"
VERSIONS = ("jax", "flax", "optax")


def path_of(program: str, folder: Path = MODULES) -> Path:
    """Where a program's module is kept."""
    return folder / f"{program}.mlirbc.xz"


def module_of(program: str, folder: Path = MODULES) -> bytes:
    """The StableHLO of a program as bytecode."""
    return lzma.decompress(path_of(program, folder).read_bytes())


def lower_all(
    rows: Iterable[Architecture], folder: Path = MODULES, facts: Path = PROGRAMS
) -> tuple[int, int]:
    """Lower what has no module yet; returns how many were lowered and how many failed."""
    known = {record["key"]: record for record in read_records(facts)}
    lowered = failed = 0
    for row in rows:
        for name, variant in row.programs().items():
            if path_of(name, folder).exists() and "digest" in known.get(name, {}):
                continue
            record = _lowered(row, name, variant, folder)
            if record != known.get(name):
                append_record(facts, record)
            lowered, failed = lowered + ("digest" in record), failed + ("error" in record)
            said = record.get("error", f"{record.get('ops')} ops")
            earlier = known.get(name, {}).get("digest", record.get("digest"))
            changed = " (another module than before)" * (earlier != record.get("digest"))
            print(f"{name}: {said}{changed}", file=sys.stderr, flush=True)
    return lowered, failed


def _lowered(row: Architecture, name: str, variant: Variant, folder: Path) -> Record:
    about = {
        "key": name,
        "architecture": row.name,
        "half": half_by_name(row.name),
        "library": row.library,
        "version": metadata.version(row.library),
    }
    started = time.perf_counter()
    try:
        step = step_of(row.make(variant), variant)
        lowered = step.lower()
        module: Any = lowered.compiler_ir("stablehlo")
    except Exception as error:  # whatever a library raises is the reason that is kept
        return about | {"error": f"{type(error).__name__}: {_first_line(str(error))}"}
    found = facts_of(module)
    _keep(path_of(name, folder), module)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(step.arguments))
    print(f"  {time.perf_counter() - started:.1f} s", file=sys.stderr, end=" ")
    return about | found | {"argument_bytes": int(size)}


def facts_of(module: Any) -> dict[str, Any]:
    """The hash of a module less its locations, and how many ops it has.

    A later version of a library shows by another hash.
    """
    with module.context:
        copy = ir.Module.parse(_bytecode(module))
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(copy.operation)
        digest = hashlib.sha256(_bytecode(copy)).hexdigest()
    ops = 0

    def count(_: Any) -> Any:
        nonlocal ops
        ops += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(count)
    return {"digest": digest, "ops": ops}


def _keep(path: Path, module: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(lzma.compress(_bytecode(module), preset=1))
    fresh.replace(path)


def _bytecode(module: Any) -> bytes:
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]
