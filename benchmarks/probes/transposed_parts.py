"""Parts of a dimension that are transposed between products: cycles of copies by their tiles."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

IMAGES, SIDE, WIDTH = 8, 64, 512
COPY = re.compile(
    r"^\s+%\S+ = bf16\[([\d,]+)\]\{\d+[\d,]*:T\((\d+),(\d+)\)[^}]*\} copy\("
    r".*\"estimated_cycles\":\"?(\d+)",
    re.MULTILINE,
)
"""A copy of 16 bits that is no result: its shape, the rows and columns of its tiles, its cycles."""
LEAST = 10_000
"""Cycles of a copy that is counted."""


def moved(
    x: Any, w: Any, v: Any, *, parts: tuple[int, ...], order: tuple[int, ...], left: tuple[int, ...]
) -> Any:
    """A product, its rows in parts that are transposed, and a product of what is left of it."""
    made = jnp.einsum("...d,de->...e", x, w).reshape(parts).transpose(order).reshape(left)
    return jnp.einsum("...d,de->...e", made, v)


def figures(compiled: Compiled) -> dict[str, float]:
    """Cycles of the copies of 16 bits between the products, and of each tile that they make."""
    found = tiles = 0.0
    for dims, rows, columns, spent in COPY.findall(compiled.text):
        if int(spent) >= LEAST:
            found += int(spent)
            tiles += math.prod(map(int, dims.split(","))) / (int(rows) * int(columns))
    return {"cycles": found, "each": round(found / tiles, 1) if tiles else 0.0}


def _case(side: int, window: int, *, joined: bool = False, dtype: str = "bfloat16") -> Case:
    """Windows of an image of pixels; `joined` ones become columns."""
    parts = (IMAGES, side // window, window, side // window, window, WIDTH)
    pixels, windows = window * window, (side // window) ** 2
    left = (IMAGES, windows, pixels * WIDTH) if joined else (IMAGES * windows, pixels, WIDTH)
    given = ((IMAGES, side * side, 128), (128, WIDTH), (left[-1], 256))
    move = partial(moved, parts=parts, order=(0, 1, 3, 2, 4, 5), left=left)
    return Case.of(partial(lowered, move, *given, dtype=dtype), figures)


PROBE = Probe(
    name="transposed_parts",
    figures="cycles of copies of 16 bits between two products, and of each tile that they make",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={
        "windows of 8 x 8": _case(SIDE, 8),
        "windows of 8 x 8, f32": _case(SIDE, 8, dtype="float32"),
        "windows of 4 x 4": _case(SIDE, 4),
        "windows of 16 x 16": _case(SIDE, 16),
        "windows of 7 x 7": _case(56, 7),
        "2 x 2 pixels as columns": _case(SIDE, 2, joined=True),
    },
)
