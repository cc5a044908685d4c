"""The modules that come from libraries: small ones kept as compressed bytecode.

`python -m tests.libraries.corpus` lowers and writes them anew; it needs `.[libraries]`.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

from toast.analysis.program import Program

KEPT = Path(__file__).parents[1] / "data" / "libraries"
SET_GROUPS = {"bert": 2, "diffusers_unet": 2, "nnx_transformer": 1, "resnet": 0, "t5": 4, "vit": 1}
"""The modules that are kept, and how many kinds of choices attention leaves in each."""

_MOMENT = re.compile(r"\.(?:mu|nu|trace|v)((?:\[.*|\.).*)$")


def kept(name: str) -> bytes:
    """The bytecode of a module that is kept."""
    return lzma.decompress((KEPT / f"{name}.mlirbc.xz").read_bytes())


def moments(program: Program) -> list[tuple[int, int]]:
    """(parameter, moment) pairs of arguments, by number.

    They are told by their names, `state['params']PATH` and `....mu PATH`; the states of `flax.nnx`
    have numbers for names and come in one order.
    """
    names = [argument.name for argument in program.arguments]
    if names[0].startswith("model.states"):
        model = _floats(program, "model.")
        state = _floats(program, "optimizer.")
        assert len(state) == 2 * len(model)
        return list(zip(model * 2, state, strict=True))
    prefix = "state['params']"
    number = {name.removeprefix(prefix): i for i, name in enumerate(names)}
    found = [(match, i) for i, name in enumerate(names) if (match := _MOMENT.search(name))]
    pairs = [(number[match[1]], i) for match, i in found if match[1] in number]
    shapes = [program.shape(argument.value) for argument in program.arguments]
    return [(left, right) for left, right in pairs if shapes[left] == shapes[right]]


def _floats(program: Program, prefix: str) -> list[int]:
    return [
        i
        for i, argument in enumerate(program.arguments)
        if argument.name.startswith(prefix)
        and program.dtype(argument.value) == "f32"
        and program.shape(argument.value)
    ]


def write() -> None:
    """Lower every module that is kept, with paths in it that start at the package."""
    import jax

    from examples.forms import serialize
    from examples.libraries import LIBRARIES

    jax.config.update(
        "jax_hlo_source_file_canonicalization_regex", r".*/(?:site-packages/|(?=examples/))"
    )
    jax.config.update("jax_include_full_tracebacks_in_locations", False)
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in SET_GROUPS:
        data = serialize(LIBRARIES[name].presets["tiny"](), "bytecode")
        packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
        (KEPT / f"{name}.mlirbc.xz").write_bytes(packed)


if __name__ == "__main__":
    write()
