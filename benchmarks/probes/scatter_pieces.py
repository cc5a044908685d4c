"""Which sums of matrices, images and rows are scattered over devices: what is cut into pieces."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Choice, Layout, cases_of, megabytes
from benchmarks.probes.nets import conv
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered

INNER = 512


def product(rows: int, columns: int, dtype: str = "float32") -> bytes:
    """A matrix of so many rows and columns, summed over `INNER`."""

    def step(x: Any, y: Any) -> Any:
        return jnp.sin(x.T @ y)

    return lowered(step, (INNER, rows), (INNER, columns), dtype=dtype)


def _columns(rows: int, columns: int, mesh: str, dtype: str = "float32") -> Layout:
    """Over the first axis of a mesh the inner dimension, and the columns of what is kept."""
    inner: Choice = ((0, 0), 0)
    kept: Choice = ((1, 1), 0)
    return Layout(program=partial(product, rows, columns, dtype), mesh=mesh, choices=(inner, kept))


OVER_ALL = ((50265, 1024), (50257, 1024), (96103, 1024), (58101, 512), (30522, 768), (50257, 768))
OVER_TWO = ((2344, 512), (2456, 512), (4856, 256), (5416, 256), (13496, 256))
LAYOUTS = {
    f"{rows}x{columns} over {mesh}": _columns(rows, columns, mesh)
    for shapes, mesh in ((OVER_ALL, "a=8"), (OVER_TWO, "a=2,b=4"))
    for rows, columns in shapes
}
LAYOUTS |= {
    f"{rows}x{columns} in 16 bits": _columns(rows, columns, "a=8", "bfloat16")
    for rows, columns in ((4096, 1024), (4096, 2048), (4096, 3072), (50265, 2048), (30522, 768))
}


ROWS: tuple[Choice, ...] = (((0, 0), 0), ((0, 1), 0))
"""The inner dimension, and the rows of what is kept."""
LAYOUTS |= {
    f"{rows} rows of 1000 over {mesh}": Layout(
        program=partial(product, rows, 1000), mesh=mesh, choices=ROWS
    )
    for mesh in ("a=2,b=4", "a=8")
    for rows in (8, 16, 32, 64)
}


def images(pixels: int, channels: int, dtype: str) -> bytes:
    """What a convolution makes of sixteen images, summed over the channels that it reads."""

    def step(x: Any, filters: Any) -> Any:
        return jnp.sin(conv(jnp.sin(x), filters))

    shape = (16, pixels, pixels, channels)
    return lowered(step, shape, (3, 3, channels, channels), dtype=dtype)


def looked_up(rows: int, columns: int) -> bytes:
    """Rows that are added to those of a table, which is kept in parts."""

    def step(table: Any, messages: Any) -> Any:
        places = jnp.arange(messages.shape[0]) * 7 % rows
        return jnp.sin(table + jax.ops.segment_sum(jnp.cos(messages), places, rows))

    return lowered(step, (rows, columns), (65536, columns))


LAYOUTS |= {
    f"rows of {columns} to {rows}": Layout(
        program=partial(looked_up, rows, columns), mesh="a=8", choices=(((1, 0), 0), ((0, 0), 0))
    )
    for rows, columns in ((100_000, 32), (100_352, 32), (100_000, 16), (100_000, 128))
}

BATCH: tuple[Choice, ...] = (((0, 0), 0),)
READ: Choice = ((0, 3), 1)
KEPT: dict[str, Choice] = {"images": ((0, 0), 1), "channels": ((1, 3), 1)}
LAYOUTS |= {
    f"{kept} of 16 x {pixels} x {pixels} x {channels} in {dtype}": Layout(
        program=partial(images, pixels, channels, dtype),
        mesh="a=2,b=4",
        choices=(*BATCH, READ, choice),
    )
    for dtype in ("float32", "bfloat16")
    for pixels, channels in ((32, 256), (32, 512), (16, 1024))
    for kept, choice in KEPT.items()
}

PROBE = Probe(
    name="scatter_pieces",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v6e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
