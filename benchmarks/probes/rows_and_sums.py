"""What is sent for lookups of one element of each row, and for sums of sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of, megabytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered_of

ROWS, TOKENS, WIDTH = 256, 64, 512


def of_each_row(x: Any, where: Any) -> Any:
    """One token of each text."""
    return jnp.sin(x[jnp.arange(ROWS), where])


def from_the_end(x: Any, where: Any) -> Any:
    """One token of each text, the last text first."""
    return jnp.sin(x[jnp.arange(ROWS)[::-1], where])


def gradient(looked_up: Callable[[Any, Any], Any], x: Any, where: Any) -> Any:
    """The gradient of that."""
    return jax.grad(lambda x: looked_up(x, where).sum())(jnp.tanh(x))


def sums(first: Callable[..., Any], second: Callable[..., Any], x: Any, _: Any) -> Any:
    """Over the texts, and then over the tokens."""
    return second(first(jnp.sin(x), axis=0)[None], axis=(0, 1))


def module(step: Callable[[Any, Any], Any]) -> bytes:
    """The program of a step."""
    x = jax.ShapeDtypeStruct((ROWS, TOKENS, WIDTH), jnp.float32)
    return lowered_of(step, x, jax.ShapeDtypeStruct((ROWS,), jnp.int32))


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "an element of each row": of_each_row,
    "its gradient": partial(gradient, of_each_row),
    "an element of each row, backwards": from_the_end,
    "a sum of sums": partial(sums, jnp.sum, jnp.sum),
    "a maximum of maxima": partial(sums, jnp.max, jnp.max),
    "a sum of maxima": partial(sums, jnp.max, jnp.sum),
}
LAYOUTS = {
    name: Layout(program=partial(module, step), mesh="a=8", choices=(((0, 0), 0),))
    for name, step in STEPS.items()
}

PROBE = Probe(
    name="rows_and_sums",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
