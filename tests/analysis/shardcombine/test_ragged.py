"""`ragged_dot` is written down; what is written is checked by running it in JAX's own terms."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.analysis.shardcombine.tools import Counting, one_op, ops_of, strategies
from toast.analysis.program import FactorKind
from toast.analysis.shardcombine import Discoverer
from toast.analysis.shardcombine.given import given

NUMBERS = "ragged_dot_dimension_numbers = #chlo.ragged_dot<{}>"
CASES = {
    "rows": (
        (
            "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
            "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]"
        ),
        ["12x8xf32", "3x8x6xf32", "3xi32"],
        "12x6xf32",
        {(-1, 2, -1): ("gather 1",), (1, 1, -1): ("sum",)},
    ),
    "contraction": (
        (
            "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], "
            "lhs_ragged_dimensions = [1]"
        ),
        ["8x12xf32", "12x6xf32", "3xi32"],
        "3x8x6xf32",
        {(0, -1, -1): ("gather 1",), (-1, 1, -1): ("gather 2",)},
    ),
    "batch": (
        (
            "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
            "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], "
            "lhs_ragged_dimensions = [1], rhs_group_dimensions = [2]"
        ),
        ["4x12x8xf32", "4x8x3x6xf32", "3xi32"],
        "4x12x6xf32",
        {(0, 0, -1): ("gather 0",), (-1, 3, -1): ("gather 2",), (2, 1, -1): ("sum",)},
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_dimension_numbers_say_what_splits(name: str, tmp_path: Path) -> None:
    numbers, operands, result, expected = CASES[name]
    types = ", ".join(f"tensor<{kind}>" for kind in operands)
    text = (
        f'%r = "chlo.ragged_dot"(%0, %1, %2) <{{{NUMBERS.format(numbers)}}}> '
        f": ({types}) -> tensor<{result}>"
    )
    counting = Counting()
    with ops_of(one_op(text, operands)) as ops:
        found = given(ops[0])
        rule = Discoverer(folder=tmp_path, runner=counting).rule(ops[0])
    assert found is not None
    assert strategies(found) == expected
    assert counting.requests == []
    assert rule is not None
    kinds = [kind for kind in rule.kinds if kind is not FactorKind.BLOCKED]
    assert len(kinds) == len(expected)


def test_every_other_op_is_discovered() -> None:
    with ops_of(one_op("%r = stablehlo.negate %0 : tensor<8xf32>", ["8xf32"])) as ops:
        assert given(ops[0]) is None


def test_shards_of_a_ragged_product_make_the_whole() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(12, 8)).astype("f4"), rng.normal(size=(3, 8, 6)).astype("f4")
    groups = jnp.array([5, 0, 7])

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(jax.lax.ragged_dot(jnp.asarray(a), jnp.asarray(b), groups))

    whole = product(left, right)
    columns = [product(left, half) for half in np.split(right, 2, 2)]
    sums = [product(a, b) for a, b in zip(np.split(left, 2, 1), np.split(right, 2, 1), strict=True)]
    np.testing.assert_allclose(np.concatenate(columns, 1), whole, rtol=1e-5)
    np.testing.assert_allclose(sums[0] + sums[1], whole, rtol=1e-4, atol=1e-5)
