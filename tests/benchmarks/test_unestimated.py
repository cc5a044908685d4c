"""What is priced for ops that libtpu gives no cycles is told apart from the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accuracy.unestimated import unestimated_seconds
from benchmarks.probes.programs import lowered_of
from tests.modules import evaluator_of
from toast.costmodel.resolved import resolve

TABLE = jax.ShapeDtypeStruct((1000, 256), jnp.float32)
PLACES = jax.ShapeDtypeStruct((512,), jnp.int32)
ROWS = jax.ShapeDtypeStruct((512, 256), jnp.float32)
IMAGES = jax.ShapeDtypeStruct((16, 64, 64, 128), jnp.float32)


def pooled(images: jax.Array) -> jax.Array:
    """What is left of maxima of 2 x 2 pixels."""
    sides = (1, 2, 2, 1)
    return jnp.sum(jax.lax.reduce_window(images, -jnp.inf, jax.lax.max, sides, sides, "VALID"))


def shares(function: Callable[..., Any], *given: Any) -> tuple[float, float]:
    """Seconds of computation of an unsharded program, and those that have no cycles."""
    resolved = resolve(evaluator_of(lowered_of(function, *given), "all=8", "tpu-v5e"), ())
    return resolved.cost.compute, unestimated_seconds(resolved)


def test_products_and_what_is_elementwise_have_cycles() -> None:
    compute, lacking = shares(lambda table, rows: jnp.tanh(rows @ table.T), TABLE, ROWS)
    assert compute > 0.0
    assert lacking == 0.0


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda table, places: table[places], (TABLE, PLACES)),
        (lambda table: jnp.sort(table, axis=1), (TABLE,)),
        (lambda places, rows: jnp.zeros((1_000_000, 256)).at[places].add(rows), (PLACES, ROWS)),
        (jax.grad(pooled), (IMAGES,)),
    ],
)
def test_lookups_sorts_sums_of_rows_and_slopes_of_maxima_have_none(
    function: Callable[..., Any], given: tuple[Any, ...]
) -> None:
    compute, lacking = shares(function, *given)
    assert 0.0 < lacking <= compute


def test_a_lookup_that_runs_in_a_loop_has_cycles() -> None:
    """What `jax.vmap` looks up libtpu scatters row by row."""

    def slope(table: jax.Array, places: jax.Array) -> jax.Array:
        return jax.grad(lambda t: jnp.sum(jax.vmap(lambda i: t[i])(places) ** 2))(table)

    compute, lacking = shares(slope, TABLE, PLACES)
    assert compute - lacking > 100 * lacking
