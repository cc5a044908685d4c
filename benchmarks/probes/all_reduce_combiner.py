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


ROWS, COLUMNS = (((0, 0), 0),), (((0, 1), 0),)
LAYOUTS = {
    f"{count} of {width**2 * 4 // 2**20} MiB": Layout(
        program=partial(gradients, count, width), mesh="a=8", choices=ROWS
    )
    for count, width in ((2, 512), (40, 1024), (2, 4096), (3, 4096), (5, 4096), (8, 2048))
} | {
    "waited for by a product": Layout(program=chain, mesh="a=4", choices=COLUMNS),
    "one after another": Layout(program=in_a_row, mesh="a=4", choices=ROWS),
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
