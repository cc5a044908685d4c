"""Which sums a loop sends in every iteration, and which once behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered

RUNS, ROWS, LEFT, RIGHT = 5, 64, 32, 16
BATCH, X_LEFT, W_RIGHT = (0, 1), (0, 2), (1, 2)
"""Dimensions of x[runs, rows, left] and w[runs, rows, right]; the gradient is `x.T @ w`."""

Body = Callable[[Any, Any, Any], tuple[Any, Any]]


def module(body: Body, *, dtype: str = "float32", outer: int = 0) -> bytes:
    """`body(carried, x, w)` gives what a scan carries on and what it stacks."""

    def step(x: Any, w: Any) -> Any:
        def inner(carried: Any, rows: Any) -> Any:
            return jax.lax.scan(lambda a, batch: body(a, *batch), carried, rows)

        start = jnp.zeros((LEFT, RIGHT), jnp.float32)
        if outer:
            return jax.lax.scan(lambda a, _: inner(a, (x, w)), start, None, length=outer)
        return inner(start, (x, w))

    return lowered(step, (RUNS, ROWS, LEFT), (RUNS, ROWS, RIGHT), dtype=dtype)


def gradient(x: Any, w: Any) -> Any:
    """The sum over rows."""
    return jnp.einsum("bl,br->lr", x, w)


def added_up(carried: Any, x: Any, w: Any) -> Any:
    """A sum of gradients, and no more."""
    return carried + gradient(x, w), None


def turned(carried: Any, x: Any, w: Any) -> Any:
    """What is transposed before it is added."""
    return gradient(w, x).T + carried, None


def subtracted(carried: Any, x: Any, w: Any) -> Any:
    """Not added but taken away."""
    return carried - gradient(x, w), None


def scaled(carried: Any, x: Any, w: Any) -> Any:
    """With arithmetic between the gradient and the sum."""
    return carried + gradient(x, w) / 3.0, None


def in_two(carried: Any, x: Any, w: Any) -> Any:
    """Two gradients a run."""
    return carried + gradient(x, w) + gradient(jnp.sin(x), w), None


def looked_at(carried: Any, x: Any, w: Any) -> Any:
    """The sum is read in every run."""
    return carried + gradient(x, w), jnp.max(carried)


def kept(carried: Any, x: Any, w: Any) -> Any:
    """The gradient of each run is a result too."""
    found = gradient(x, w)
    return carried + found, found


def narrow(carried: Any, x: Any, w: Any) -> Any:
    """A gradient of 16 bits, in a sum of 32."""
    return carried + gradient(x, w).astype(jnp.float32), None


def in_parts() -> bytes:
    """The gradient of weights that were joined: each part is turned, and added to its own sum."""

    def step(x: Any, w: Any) -> Any:
        def body(sums: Any, batch: Any) -> Any:
            parts = jnp.split(gradient(*batch), 2)
            return tuple(one + part.T for one, part in zip(sums, parts, strict=True)), None

        start = jnp.zeros((RIGHT, LEFT // 2), jnp.float32)
        return jax.lax.scan(body, (start, start), (x, w))[0]

    return lowered(step, (RUNS, ROWS, LEFT), (RUNS, ROWS, RIGHT))


def repeated() -> bytes:
    """A weight that every iteration reads."""

    def step(weight: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ weight), None), x, None, length=RUNS)[0]

    return lowered(step, (LEFT, LEFT), (ROWS, LEFT))


BODIES = (added_up, turned, subtracted, scaled, in_two, looked_at, kept)
LAYOUTS = {
    body.__name__: Layout(program=partial(module, body), mesh="a=2", choices=((BATCH, 0),))
    for body in BODIES
} | {
    "narrow": Layout(
        program=partial(module, narrow, dtype="bfloat16"), mesh="a=2", choices=((BATCH, 0),)
    ),
    "in two loops": Layout(
        program=partial(module, added_up, outer=3), mesh="a=2", choices=((BATCH, 0),)
    ),
    "in parts": Layout(program=in_parts, mesh="a=2", choices=((BATCH, 0),)),
    "scattered in part": Layout(
        program=partial(module, added_up),
        mesh="a=2,b=4",
        choices=((BATCH, 0), (BATCH, 1), (X_LEFT, 0)),
    ),
    "cut over two axes": Layout(
        program=partial(module, added_up),
        mesh="a=2,b=2",
        choices=((BATCH, 0), (BATCH, 1), (X_LEFT, 0), (W_RIGHT, 1)),
    ),
    "gathered weight": Layout(program=repeated, mesh="a=2", choices=(((1, 0), 0), ((0, 0), 0))),
}
"""Rows of the gradient over one axis or two."""


def sent(compiled: Compiled) -> dict[str, dict[str, float]]:
    """Runs and bytes on the wire of one device, by kind and axes; scalars are left out."""
    return {
        f"{row.kind} {','.join(row.axes or ('?',))}": {"runs": row.count, "bytes": row.wire_bytes}
        for row in compiled.verdict.collectives
        if row.wire_bytes > 64 * row.count
    }


PROBE = Probe(
    name="while_loop_all_reduce_motion",
    figures="runs and wire bytes of the collectives of a loop of five runs",
    targets=("tpu-v5e:2x4", "a100:8", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases=cases_of(LAYOUTS, sent),
)
