"""Programs with loops and branches, over small integers so that results are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.laws.layout import Array

Function = Callable[..., Any]


def lowered(function: Function, inputs: list[Array]) -> str:
    """The StableHLO text of a function of arrays."""
    text: str = jax.jit(function).lower(*inputs).as_text()
    return text


def small(value: Any) -> Any:
    """Within -3..3, so that products stay exact."""
    return jnp.clip(value, -3, 3)


def scanned_layers(x: Any, first: Any, second: Any) -> Any:
    def layer(h: Any, weights: Any) -> Any:
        h = small(small(h @ weights[0]) @ weights[1]) + h
        return small(h), h.sum(axis=0)

    return lax.scan(layer, x, (first, second))


def nested_scans(x: Any, weights: Any) -> Any:
    def inner(h: Any, w: Any) -> Any:
        return small(h @ w), None

    def outer(h: Any, ws: Any) -> Any:
        h, _ = lax.scan(inner, h, ws)
        return small(h + h[::-1]), h[0]

    return lax.scan(outer, x, weights)


def unknown_trips(x: Any, w: Any) -> Any:
    def body(state: Any) -> Any:
        step, h = state
        return step + 1, small(h @ w - h)

    def unfinished(state: Any) -> Any:
        step, h = state
        return (step < 6) & (jnp.abs(h).sum() > 2)

    return lax.while_loop(unfinished, body, (0, x))


def transposed_carry(x: Any, w: Any) -> Any:
    """The carry is turned at every step: its two dimensions become one colour."""
    return lax.fori_loop(0, 3, lambda _, h: small(h.T @ w), x)


def one_of_two(x: Any, w: Any, chosen: Any) -> Any:
    return lax.cond(chosen > 0, lambda a: small(a @ w), lambda a: small(a + w.T), x)


def one_of_three(x: Any, w: Any, chosen: Any) -> Any:
    branches = [lambda a: small(a @ w), lambda a: small(a.T @ w), lambda a: small(a * 2)]
    return lax.switch(chosen, branches, x)


def branch_in_loop(x: Any, w: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda a: small(a @ w), lambda a: small(w - a), h)

    return lax.fori_loop(0, 4, body, x)


def cache_update(cache: Any, x: Any, w: Any) -> Any:
    """A decoding loop: each step writes one row of a cache and reads all of it."""

    def body(i: Any, state: Any) -> Any:
        rows, h = state
        rows = lax.dynamic_update_slice_in_dim(rows, h[:, None], i, axis=1)
        h = small(jnp.einsum("bsd,bd->bd", rows, h) @ w)
        return rows, h

    return lax.fori_loop(0, 4, body, (cache, x))


def integers(*shape: int) -> Array:
    """Numbers from -2 to 2."""
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float32)


def choice(number: int) -> Array:
    """A scalar that chooses a branch."""
    return np.array(number, np.int32)


PROGRAMS: dict[str, tuple[Function, list[Array]]] = {
    "scanned layers": (scanned_layers, [integers(8, 4), integers(3, 4, 8), integers(3, 8, 4)]),
    "nested scans": (nested_scans, [integers(8, 8), integers(2, 3, 8, 8)]),
    "unknown trips": (unknown_trips, [integers(8, 8), integers(8, 8)]),
    "transposed carry": (transposed_carry, [integers(8, 8), integers(8, 8)]),
    "one of two": (one_of_two, [integers(8, 8), integers(8, 8), choice(1)]),
    "the other": (one_of_two, [integers(8, 8), integers(8, 8), choice(0)]),
    "one of three": (one_of_three, [integers(8, 8), integers(8, 8), choice(1)]),
    "the last of three": (one_of_three, [integers(8, 8), integers(8, 8), choice(7)]),
    "branch in a loop": (branch_in_loop, [integers(8, 8), integers(8, 8)]),
    "cache update": (cache_update, [integers(4, 8, 8), integers(4, 8), integers(8, 8)]),
}
