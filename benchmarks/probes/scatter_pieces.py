"""Which sums of matrices are scattered over devices: those that can be cut into equal pieces."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.layouts import Choice, Layout, cases_of, megabytes
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

PROBE = Probe(
    name="scatter_pieces",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v6e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
