"""Partial sums that are only added to each other: whether they are sent one by one."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of, megabytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered

ROWS, INNER, WIDTH = 2048, 2048, 2048


def products(count: int, *, between: bool = False) -> bytes:
    """Products that are added up, or what is made of each is."""

    def step(x: Any, *weights: Any) -> Any:
        made = [x @ weight for weight in weights]
        return reduce(add, map(jnp.tanh, made) if between else made)

    return lowered(step, (ROWS, INNER), *[(INNER, WIDTH)] * count)


SUMMED = (((0, 1), 0),)
LAYOUTS = {
    "one product": Layout(program=partial(products, 1), mesh="a=8", choices=SUMMED),
    "two added": Layout(program=partial(products, 2), mesh="a=8", choices=SUMMED),
    "four added": Layout(program=partial(products, 4), mesh="a=8", choices=SUMMED),
    "two, arithmetic between": Layout(
        program=partial(products, 2, between=True), mesh="a=8", choices=SUMMED
    ),
}

PROBE = Probe(
    name="all_reduce_reassociate",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
