"""Sums over devices stand where the price has them: behind loops, and once for what is added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.laws.layout import Array
from tests.laws.loops import lowered
from tests.laws.states import single_states
from tests.toast.forms.lowered import Pair, lower, run
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import CollectiveReason

MESH = "x=2,y=4"
FORMS = ("collectives", "local")


def gradients(x: Any, y: Any, w: Any, first: Any) -> Any:
    """Sums of products and of rows, batch after batch; one begins with what is given."""

    def batch(carried: Any, rows: Any) -> Any:
        x, y = rows
        total, bias, count = carried
        return (total + (x.T @ y).T, bias + x.sum(0), count + 1), None

    zeros = jnp.zeros(first.shape[0])
    (total, bias, count), _ = lax.scan(batch, (first, zeros, 0), (x, y))
    return total @ w, bias, count


def joined(x: Any, y: Any, w: Any, first: Any) -> Any:
    """The gradient of weights that were joined: its parts are added up by themselves."""

    def batch(carried: Any, rows: Any) -> Any:
        x, y = rows
        parts = jnp.split(x.T @ y, 2)
        return tuple(one + part.T for one, part in zip(carried, parts, strict=True)), None

    zeros = jnp.zeros((first.shape[0], first.shape[0] // 2))
    left, right = lax.scan(batch, (zeros, first[:, 4:]), (x, y))[0]
    return left + right, w


def products(x: Any, y: Any, w: Any, first: Any) -> Any:
    """Three products that are added one by one to something else."""
    return ((jnp.negative(first) + x[0] @ y[0]) + x[1] @ y[1]) + x[2] @ y[2] + 0 * w.sum()


def lookups(x: Any, y: Any, w: Any, first: Any) -> Any:
    """Two scatters that are added one by one to something else."""
    places = jnp.arange(8) % 3
    nothing = jnp.zeros_like(first)
    made = jnp.negative(first) + nothing.at[places].add(x[0])
    return made + nothing.at[places[::-1]].add(y[0]) + 0 * w.sum()


def constants(x: Any, y: Any, w: Any, first: Any) -> Any:
    """A loop that begins with zeros, and passes ones on."""

    def step(carried: Any, row: Any) -> Any:
        total, ones = carried
        return (jnp.maximum(total, row + ones), ones), None

    begun = jnp.zeros_like(first), jnp.ones_like(first)
    return lax.scan(step, begun, x)[0][0] @ w + y.sum() + first.sum()


def given() -> list[Array]:
    """Small integers, whose sums are exact in any order."""
    generator = np.random.default_rng(0)
    shapes = ((4, 8, 8), (4, 8, 8), (8, 4), (8, 8))
    return [generator.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def states(function: Callable[..., Any], form: str, device: str, most: int) -> Iterator[Pair]:
    """A function in different layouts, lowered."""
    text = lowered(function, given()).encode()
    source = load(text)
    analysis = analyse(source.program)
    evaluator = Evaluator(analysis, Mesh.parse(MESH), find(device))
    found = single_states(evaluator)
    for state in found[:: max(1, len(found) // most)]:
        yield lower(load(text), resolve(evaluator, state), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [gradients, joined, products, lookups, constants])
def test_sums_are_counted_and_right_in_every_layout(
    function: Callable[..., Any], form: str
) -> None:
    inputs = given()
    expected = [np.asarray(one) for one in jax.tree.leaves(jax.jit(function)(*inputs))]
    for found in states(function, form, "tpu-v5e", 8):
        assert found.written == found.priced
        for one, other in zip(run(found, inputs), expected, strict=True):
            assert np.array_equal(one, other)


def body(module: str) -> str:
    """The part of a module that its first loop runs."""
    inside = module[module.index("stablehlo.while") :]
    return inside[: inside.index("\n    }\n")]


@pytest.mark.parametrize("function", [gradients, joined])
def test_a_loop_carries_partial_sums_where_they_are_priced_behind_it(
    function: Callable[..., Any],
) -> None:
    behind = 0
    for found in states(function, "collectives", "tpu-v5e", 40):
        if any(
            one.reason is CollectiveReason.BEHIND_LOOP for one in found.resolved.collectives
        ) and not any(one.kind.name == "REDUCE_SCATTER" for one in found.resolved.collectives):
            module = str(found.lowered.module)
            assert "unreduced={" in body(module)
            assert "sdy.all_reduce" not in body(module)
            assert "sdy.all_reduce" in module
            behind += 1
    assert behind > 0


def test_a_loop_of_constants_gathers_none_of_them() -> None:
    """What is gathered are arguments: zeros and ones are made as they are wanted."""
    for found in states(constants, "local", "cpu", 40):
        sent = [one for one in found.lowered.sent if one.kind == "all_gather"]
        assert len(sent) == sum(n for (kind, _), n in found.priced.items() if kind == "all_gather")


def test_products_that_are_added_to_something_else_are_summed_one_by_one() -> None:
    sums = {
        found.written["all_reduce", ("x",)] for found in states(products, "local", "tpu-v5e", 40)
    }
    assert 3 in sums
    assert 2 not in sums
