"""Cycles of products of two large operands: what is read again for every block of the result."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered, lowered_of

DEPTH = 8192
SIDES = (2048, 4096, 6144, 8192, 12288, 16384, 24576)
"""Rows of one operand and columns of the other: in 16 bits as many times 16 KiB."""
NARROW = [*((side, side) for side in SIDES), (2048, 24576), (24576, 2048)]
WIDE = ((16384, 4096, 14336), (16384, 8192, 8192))
"""Rows, what is contracted, and columns."""
GRADIENT = (16384, 4096, 6272)
UPDATES = {"descent": 1, "momentum": 2, "Adam": 3}
"""With how many arrays of the size of a gradient each is made."""
SMALLER = ((256, 4096, 4096), (4096, 4096, 4096), (256, 768, 3072), (4096, 512, 4096))
"""Rows that Adam's update contracts, in 16 bits, and the sides of its weight."""


WORDS = (
    ("float32", 1024, 32768),
    ("float32", 1024, 131072),
    ("float32", 2048, 131072),
    ("float32", 1024, 256008),
    ("bfloat16", 1024, 131072),
    ("bfloat16", 2048, 131072),
)
"""Type, width and words of a table whose scores are made for so many tokens."""
TOKENS = 1024


def product(x: Any, w: Any) -> Any:
    """Nothing but a product."""
    return x @ w


def likeliest(x: Any, table: Any) -> Any:
    """The word of the highest score, as inference takes it: no score is stored."""
    return jnp.argmax(x @ table.T, axis=-1)


def update(x: Any, g: Any, *state: Any) -> Any:
    """An optimizer's update, inside which its gradient is made."""
    gradient = x.T @ g
    if len(state) == 1:
        return state[0] - 0.1 * gradient
    first = 0.9 * state[1] + 0.1 * gradient
    if len(state) == 2:
        return state[0] - 0.1 * first, first
    second = 0.99 * state[2] + 0.01 * gradient * gradient
    return state[0] - 0.1 * first / (jnp.sqrt(second) + 1e-8), first, second


def _updated(arrays: int) -> Case:
    rows, left, right = GRADIENT
    shapes = [(rows, left), (rows, right), *[(left, right)] * arrays]
    return Case.of(partial(lowered, update, *shapes, dtype="float32"), cycles)


def updated_by(x: Any, g: Any, *state: Any) -> Any:
    """Adam's update, of what is stored in 16 bits."""
    return update(x.astype(jnp.float32), g.astype(jnp.float32), *state)


def _smaller(rows: int, left: int, right: int) -> Case:
    given = [jax.ShapeDtypeStruct((rows, side), jnp.bfloat16) for side in (left, right)]
    state = [jax.ShapeDtypeStruct((left, right), jnp.float32)] * 3
    return Case.of(partial(lowered_of, updated_by, *given, *state), cycles)


PROBE = Probe(
    name="dot_tiling",
    figures="cycles of a product of two operands in 16 bits or 32, and of updates inside it",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={
        f"{rows} x {DEPTH} by {DEPTH} x {columns}": Case.of(
            partial(lowered, product, (rows, DEPTH), (DEPTH, columns), dtype="bfloat16"), cycles
        )
        for rows, columns in NARROW
    }
    | {
        f"f32, {rows} x {depth} by {depth} x {columns}": Case.of(
            partial(lowered, product, (rows, depth), (depth, columns), dtype="float32"), cycles
        )
        for rows, depth, columns in WIDE
    }
    | {f"f32, {name}": _updated(arrays) for name, arrays in UPDATES.items()}
    | {f"Adam, {r} rows, {m} x {n}": _smaller(r, m, n) for r, m, n in SMALLER}
    | {
        f"likeliest of {words} words of {width}, {dtype}": Case.of(
            partial(lowered, likeliest, (TOKENS, width), (words, width), dtype=dtype), cycles
        )
        for dtype, width, words in WORDS
    },
)
