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


def parts(x: Any) -> Any:
    """Two halves of an argument."""
    return jnp.tanh(x[: SIDE // 2]), jnp.exp(x[SIDE // 2 :])


def gates(x: Any, weight: Any) -> Any:
    """What is made of the halves of a product, in one shape."""
    made = x @ weight
    return jnp.tanh(made[:, : SIDE // 2]), jnp.exp(made[:, SIDE // 2 :])


def added(x: Any, weight: Any, other: Any) -> Any:
    """The halves of a product, each added to a part of something else."""
    made, half = x @ weight, SIDE // 2
    return made[:, :half] + other[:, ::2], made[:, half:] + other[:, 1::2]


def turned(x: Any) -> Any:
    """What stands at odd and at even places, as rotary embeddings take it."""
    pairs = jnp.sin(x).reshape(SIDE, SIDE // 2, 2)
    return pairs[..., 0] * 1.5, -pairs[..., 1]


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "moments of Adam and its update": (adam, 4),
    "the moment of Lion and its update": (lion, 3),
    "two values of one": (twice, 1),
    "a value and what is made of it": (both, 1),
    "a value and what is made of a part of it": (shapes, 1),
    "two parts of one": (parts, 1),
    "two parts of a product": (gates, 2),
    "two parts of a product, added": (added, 3),
    "odd and even places": (turned, 1),
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
