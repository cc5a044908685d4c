"""How many messages sums of gradients are sent in, which nothing waits for."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered


def gradients(count: int, width: int, rows: int = 16) -> bytes:
    """So many gradients of `width` x `width` in 32 bits, summed over rows."""

    def step(x: Any, *slopes: Any) -> Any:
        return [x.T @ slope for slope in slopes]

    return lowered(step, *[(rows, width)] * (count + 1))


def chain(rows: int = 64, width: int = 32) -> bytes:
    """Two sums over columns, of which a third product waits for the first."""

    def step(x: Any, w: Any, v: Any, u: Any) -> Any:
        return x @ u, jnp.tanh(x @ w) @ v

    return lowered(step, (rows, width), *[(width, width)] * 3)


def in_a_row(rows: int = 64, width: int = 32) -> bytes:
    """Sums that a product in between waits for."""

    def step(x: Any, w: Any, v: Any) -> Any:
        first = x.T @ (x @ w)
        return x.T @ jnp.tanh(x @ (first @ v))

    return lowered(step, (rows, width), *[(width, width)] * 2)


def norm(squares: bool, rows: int = 64, width: int = 32) -> bytes:
    """A norm over a batch: of the mean of the `squares`, or of what is less the mean."""

    def step(x: Any, w: Any, v: Any) -> Any:
        y = x @ w
        mean = y.mean(0)
        variance = (y * y).mean(0) - mean**2 if squares else ((y - mean) ** 2).mean(0)
        return (y - mean) / jnp.sqrt(variance + 1.0) @ v

    return lowered(step, (rows, width), *[(width, width)] * 2)


def heads(count: int, rows: int = 64, width: int = 32) -> bytes:
    """So many products of one input, of which the next product is made."""

    def step(x: Any, out: Any, *weights: Any) -> Any:
        return jnp.prod(jnp.stack([jnp.tanh(x @ w) for w in weights]), 0) @ out

    return lowered(step, (rows, width), *[(width, width)] * (count + 1))


def two_types(rows: int = 64, width: int = 32) -> bytes:
    """Two sums at one moment, one of them of 16 bits."""

    def step(x: Any, w: Any) -> Any:
        one, other = x.sum(0), x.astype(jnp.bfloat16).sum(0, dtype=jnp.bfloat16)
        return (x * one * jnp.tanh(other)) @ w

    return lowered(step, (rows, width), (width, width))


ROWS, COLUMNS = (((0, 0), 0),), (((0, 1), 0),)
LAYOUTS = {
    f"{count} of {width**2 * 4 // 2**20} MiB": Layout(
        program=partial(gradients, count, width), mesh="a=8", choices=ROWS
    )
    for count, width in ((2, 512), (40, 1024), (2, 4096), (3, 4096), (5, 4096), (8, 2048))
} | {
    "waited for by a product": Layout(program=chain, mesh="a=4", choices=COLUMNS),
    "one after another": Layout(program=in_a_row, mesh="a=4", choices=ROWS),
    "a mean and that of squares": Layout(program=partial(norm, True), mesh="a=4", choices=ROWS),
    "a mean and what is less it": Layout(program=partial(norm, False), mesh="a=4", choices=ROWS),
    "three products of one input": Layout(program=partial(heads, 3), mesh="a=4", choices=COLUMNS),
    "of two types": Layout(program=two_types, mesh="a=4", choices=ROWS),
}


def messages(compiled: Compiled) -> dict[str, list[float]]:
    """By kind how many there are, and the MiB that all of them work on."""
    return {
        row.kind: [row.count, round(row.result_bytes / 2**20, 2)]
        for row in compiled.verdict.collectives
    }


PROBE = Probe(
    name="all_reduce_combiner",
    figures="by kind of collective how many there are and MiB in all of them",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, messages),
)
