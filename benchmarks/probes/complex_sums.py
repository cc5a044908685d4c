"""Partial sums of complex numbers: which collective a compiler sends them by."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of, megabytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered_of

ROWS, WIDTH = 64, 2**17


def summed(rows: int = ROWS, width: int = WIDTH, *, added: int = 1) -> bytes:
    """What rows of complex numbers sum up to, times as many others; several such sums."""

    def step(x: Any, y: Any) -> Any:
        found = [(jax.lax.complex(x, y + place) ** 2).sum(0) for place in range(added)]
        return [one.real * one.imag for one in found]

    shape = jax.ShapeDtypeStruct((rows, width), jnp.float32)
    return lowered_of(step, shape, shape)


def multiplied(rows: int, inner: int, columns: int) -> bytes:
    """A product of complex matrices."""

    def step(x: Any, y: Any, z: Any, w: Any) -> Any:
        made = jax.lax.complex(x, y) @ jax.lax.complex(z, w)
        return made.real * made.imag

    left, right = ((rows, inner), (inner, columns))
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (left, left, right, right)]
    return lowered_of(step, *shapes)


BY_ROWS, BY_COLUMNS = ((0, 0), 0), ((0, 1), 0)
BY_MORE_ROWS, BY_MORE_COLUMNS = ((0, 0), 1), ((0, 1), 1)
INNER = ((0, 1), 0)
LAYOUTS = {
    "a sum": Layout(program=summed, mesh="a=8", choices=(BY_ROWS,)),
    "a small sum": Layout(program=partial(summed, width=512), mesh="a=8", choices=(BY_ROWS,)),
    "two sums": Layout(program=partial(summed, added=2), mesh="a=8", choices=(BY_ROWS,)),
    "over two axes": Layout(program=summed, mesh="a=2,b=4", choices=(BY_ROWS, BY_MORE_ROWS)),
    "over the first of two": Layout(program=summed, mesh="a=2,b=4", choices=(BY_ROWS,)),
    "over the second of two": Layout(program=summed, mesh="a=2,b=4", choices=(BY_MORE_ROWS,)),
    "beside columns": Layout(program=summed, mesh="a=2,b=4", choices=(BY_ROWS, BY_MORE_COLUMNS)),
    "scattered": Layout(program=summed, mesh="a=8", choices=(BY_ROWS, BY_COLUMNS)),
    "a product": Layout(
        program=partial(multiplied, 1024, 1024, 1024), mesh="a=8", choices=(INNER,)
    ),
}

PROBE = Probe(
    name="complex_sums",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
