"""Bytes that arguments take in main memory, and what is copied into another memory layout."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.fusion_rates import LAYOUTS
from benchmarks.probes.launches import launched
from benchmarks.probes.nets import step
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered, lowered_of

SHAPES: dict[str, tuple[tuple[int, ...], str]] = {
    "64x256xf32": ((64, 256), "float32"),
    "3x3x16x4xf32": ((3, 3, 16, 4), "float32"),
    "3x3x4x16xf32": ((3, 3, 4, 16), "float32"),
    "3x32x48xf32": ((3, 32, 48), "float32"),
    "48x32xbf16": ((48, 32), "bfloat16"),
    "200xf32": ((200,), "float32"),
    "f32": ((), "float32"),
    "256x4x8xf32": ((256, 4, 8), "float32"),
}
"""By how StableHLO writes them."""
WORK = frozenset({"convolution", "dot", "custom-call", "tanh", "add", "multiply", "subtract"})
UPDATES = {
    "update of a transposed gradient": "bij,bk->kij",
    "update of a gradient as its product makes it": "bij,bk->ijk",
}


def module(shape: tuple[int, ...], dtype: str) -> bytes:
    """The sine of an argument."""
    return lowered_of(jnp.sin, jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)))


def update(subscripts: str) -> bytes:
    """A gradient that is added to a moment, which a weight is updated by."""

    def run(x: Any, d: Any, moment: Any, weight: Any) -> Any:
        moment = 0.9 * moment + jnp.einsum(subscripts, x, d)
        return moment, weight - jnp.tanh(moment)

    shapes = {"b": 8, "i": 64, "j": 16, "k": 2**16}
    *given, made = subscripts.replace("->", ",").split(",")
    return lowered(run, *[tuple(shapes[name] for name in of) for of in (*given, made, made)])


def copies(compiled: Compiled) -> list[str]:
    """What is stored by launches that only copy or transpose."""
    return [
        " ".join(f"{shape.dtype}{list(shape.dims)}" for shape in one.shapes)
        for one, opcodes in launched(compiled)
        if {"copy", "transpose"} & set(opcodes) and not WORK & set(opcodes)
    ]


def convolved(width: int, stride: int, *, turned: bool = False) -> bytes:
    """A convolution of images with a filter of so many pixels, or one that is transposed."""
    numbers = ("NHWC", "HWIO", "NHWC")

    def run(x: Any, filters: Any) -> Any:
        how = jax.lax.conv_transpose if turned else jax.lax.conv_general_dilated
        return jnp.tanh(
            how(jnp.sin(x), filters, (stride, stride), "SAME", dimension_numbers=numbers)
        )

    return lowered(run, (16, 64, 64, 32), (width, width, 32, 32))


CONVOLVED = {
    "3 pixels": (3, 1, False),
    "2 pixels": (2, 1, False),
    "3 pixels, every other": (3, 2, False),
    "4 pixels, every other": (4, 2, False),
    "4 pixels, between": (4, 2, True),
}


def padded(compiled: Compiled) -> list[int]:
    """Elements of what is stored by launches that pad."""
    return [
        math.prod(shape.dims)
        for one, opcodes in launched(compiled)
        if "pad" in opcodes and not WORK & set(opcodes)
        for shape in one.shapes
    ]


def given(compiled: Compiled) -> int:
    """Bytes of the argument."""
    assert compiled.verdict.memory is not None
    return compiled.verdict.memory.argument


PROBE = Probe(
    name="layout_assignment",
    figures="bytes of an argument in main memory; what is copied; elements of what is padded",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases={name: Case.of(partial(module, *of), given) for name, of in SHAPES.items()}
    | {name: Case.of(partial(update, of), copies) for name, of in UPDATES.items()}
    | {"update of a filter": Case.of(partial(step, 16, 32, 128, 2), copies)}
    | {
        f"convolution of {name}": Case.of(partial(convolved, *of[:2], turned=of[2]), padded)
        for name, of in CONVOLVED.items()
    }
    | {name: LAYOUTS[name].case(copies) for name in ("product, gathered along two dimensions",)},
)
