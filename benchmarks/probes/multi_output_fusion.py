"""Elementwise updates that read the same: one fusion with several results, or several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.launches import launched
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

SIDE = 1024


def adam(slope: Any, weight: Any, mean: Any, square: Any) -> Any:
    """Two moments and the weight that they update."""
    mean = 0.9 * mean + 0.1 * slope
    square = 0.99 * square + 0.01 * slope * slope
    return weight - 1e-3 * mean / (jnp.sqrt(square) + 1e-8), mean, square


def lion(slope: Any, weight: Any, mean: Any) -> Any:
    """A moment, and the weight that is not updated by it but by what was before."""
    update = jnp.sign(0.9 * mean + 0.1 * slope)
    return weight - 1e-3 * update, 0.99 * mean + 0.01 * slope


def twice(x: Any) -> Any:
    """Two values of an argument."""
    return jnp.tanh(x), jnp.exp(x)


def both(x: Any) -> Any:
    """What is made of an argument, and what is made of that."""
    made = jnp.tanh(x)
    return made, jnp.abs(made)


def shapes(x: Any) -> Any:
    """The same, of which the second has another shape."""
    made = jnp.tanh(x)
    return made, jnp.abs(made[: SIDE // 2])


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "moments of Adam and its update": (adam, 4),
    "the moment of Lion and its update": (lion, 3),
    "two values of one": (twice, 1),
    "a value and what is made of it": (both, 1),
    "a value and what is made of a part of it": (shapes, 1),
}


def fusions(compiled: Compiled) -> list[int]:
    """How many values each fusion stores."""
    return [len(one.shapes) for one, _ in launched(compiled)]


PROBE = Probe(
    name="multi_output_fusion",
    figures="by fusion how many values it stores",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "a100:8"),
    cases={
        name: Case.of(partial(lowered, of, *[(SIDE, SIDE)] * count), fusions)
        for name, (of, count) in PROGRAMS.items()
    },
)
