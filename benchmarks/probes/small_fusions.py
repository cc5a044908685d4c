"""Cycles of loops of a product or two whose operands stay on the chip, and of what counts the runs.

Nothing in them is large: what is seen is what starting a product takes, and counting.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered

RUNS, WIDTH = 64, 512


def in_turn(rows: int, *, summed: bool = False) -> bytes:
    """In every run a product of so many rows, and a pass over its columns' sums."""

    def step(x: Any, w: Any) -> Any:
        def run(h: Any, _: None) -> tuple[Any, None]:
            made = h @ w
            return (made - jnp.sum(made, axis=0)) if summed else made, None

        return jax.lax.scan(run, x, None, length=RUNS)[0]

    return lowered(step, (rows, WIDTH), (WIDTH, WIDTH))


LAYOUTS = {
    **{
        f"products of {rows} rows": Layout(program=partial(in_turn, rows), mesh="a=2")
        for rows in (32, 128, 512)
    },
    "products and passes of 32 rows": Layout(program=partial(in_turn, 32, summed=True), mesh="a=2"),
}


def cycles(compiled: Compiled) -> dict[str, int]:
    """Those of a run that the compiler estimates, by what they are spent on, but for copies."""
    spent = compiled.verdict.cycles.items()
    return {kind: round(each / RUNS) for kind, each in sorted(spent) if kind != "copy"}


PROBE = Probe(
    name="small_fusions",
    figures="cycles of a run by what they are spent on",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases=cases_of(LAYOUTS, cycles),
)
