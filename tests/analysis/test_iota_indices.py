"""Lookups in which each row of indices stands at its own place of the operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.programs import lowered_of
from tests.modules import analysed
from toast.analysis.program import FactorKind, Program

ROWS, TOKENS, WIDTH = 24, 16, 8
Step = Callable[[Any, Any], Any]


def program(step: Step) -> Program:
    x = jax.ShapeDtypeStruct((ROWS, TOKENS, WIDTH), jnp.float32)
    return analysed(lowered_of(step, x, jax.ShapeDtypeStruct((ROWS,), jnp.int32))).program


def summed(step: Step, kind: str) -> list[int]:
    """The sizes of the dimensions that a lookup sums over."""
    found = program(step)
    (op,) = found.ops_named(kind)
    factors = found.factors_of(op)
    kinds, sizes = found.factor_kind[factors], found.factor_size[factors]
    return [int(s) for k, s in zip(kinds, sizes, strict=True) if k == FactorKind.REDUCTION]


def by_row(x: Any, where: Any) -> Any:
    return x[jnp.arange(ROWS), where]


def by_column_of_counts(x: Any, where: Any) -> Any:
    counted = jnp.arange(ROWS).astype(jnp.int32).reshape(ROWS, 1)
    return x[counted, where[:, None]]


def positions(x: Any, where: Any) -> Any:
    """A table of positions, looked up for each text."""
    return x[0][jnp.broadcast_to(jnp.arange(TOKENS), (ROWS, TOKENS))] + where[:, None, None]


def wrapped(rows: Any) -> Any:
    """As `x[rows]` wraps negative rows."""
    return jax.lax.select(rows < 0, rows + ROWS, rows)


def chosen(rows: Any) -> Any:
    """The first rows are row 0."""
    return jax.lax.select(rows < 3, rows * 0, rows)


def gradient(x: Any, where: Any) -> Any:
    return jax.grad(lambda x: by_row(x, where).sum())(x)


@pytest.mark.parametrize(
    ("step", "kind", "left"),
    [
        (by_row, "stablehlo.gather", [TOKENS]),
        (by_column_of_counts, "stablehlo.gather", [TOKENS]),
        (positions, "stablehlo.gather", []),
        (gradient, "stablehlo.scatter", []),
    ],
)
def test_a_dimension_that_is_counted_up_is_not_summed_over(
    step: Step, kind: str, left: list[int]
) -> None:
    assert summed(step, kind) == left


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: jnp.arange(ROWS)[::-1], id="backwards"),
        pytest.param(lambda: jnp.arange(ROWS) + 1, id="from one on"),
        pytest.param(lambda: jnp.arange(ROWS) % 4, id="again and again"),
        pytest.param(lambda: chosen(jnp.arange(ROWS)), id="chosen"),
        pytest.param(lambda: wrapped(jnp.arange(ROWS, dtype=float)).astype(int), id="of floats"),
    ],
)
def test_any_other_numbers_are_as_good_as_unknown(rows: Callable[[], Any]) -> None:
    assert summed(lambda x, where: x[rows(), where], "stablehlo.gather") == [ROWS, TOKENS]


def test_fewer_rows_than_the_operand_has_are_not_its_rows() -> None:
    half = ROWS // 2
    found = summed(lambda x, where: x[jnp.arange(half), where[:half]], "stablehlo.gather")
    assert found == [ROWS, TOKENS]


def test_the_rows_of_all_three_have_one_name() -> None:
    found = program(by_row)
    (op,) = found.ops_named("stablehlo.gather")
    operand, indices = found.uses_of(op)
    names = found.use_names(operand)[0], found.use_names(indices)[0]
    assert {*names, found.def_names(found.values_of(op)[0])[0]} == {names[0]}


def diagonal(scores: Any) -> Any:
    """As a contrastive loss reads it, of pairs that belong together."""
    rows = jnp.arange(ROWS)
    return scores[rows, rows].sum()


@pytest.mark.parametrize("step", [diagonal, jax.grad(diagonal)], ids=["lookup", "gradient"])
def test_two_dimensions_that_are_counted_up_have_two_names(step: Callable[[Any], Any]) -> None:
    """No axis can split both of them: one is split with the indices, the other is summed over."""
    found = analysed(lowered_of(step, jax.ShapeDtypeStruct((ROWS, ROWS), jnp.float32))).program
    (op,) = found.ops_named("stablehlo.gather", "stablehlo.scatter")
    first = found.use_dims[found.uses_of(op)[0]]
    one, other = found.use_name[first : first + 2].tolist()
    assert one != other
    kinds = [found.factor_kind[name] for name in (one, other)]
    assert kinds[0] == FactorKind.PARALLEL
