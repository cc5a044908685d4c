"""Pricing only what changed: exactly the price from scratch, whatever was priced before."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel.texts import GPU, TPU, main, maps, product
from tests.modules import argument_group, evaluator_of
from toast.costmodel.dependencies import EDGES, LIVES, PARTIALS, ROOTS, dependency_columns
from toast.costmodel.evaluator import FEWEST, Action, Cost, Evaluator, State
from toast.costmodel.resolved import resolve
from toast.costmodel.tables import Tables
from toast.search.actions import action_space

DEVICES = (TPU, GPU)


@cache
def training_step(device: str) -> Evaluator:
    """Eight devices on an axis: sums are scattered block by block, and operands kept whole."""
    config = replace(gemma.PRESETS["tiny"], batch=16)
    data = gemma.lower(config).as_text(debug_info=True).encode()
    return evaluator_of(data, "data=2,model=8", device)


@cache
def actions(device: str) -> tuple[Action, ...]:
    return action_space(training_step(device))


def states_of(device: str, picks: list[list[int]]) -> list[State]:
    known = actions(device)
    return [tuple(known[pick % len(known)] for pick in state) for state in picks]


def from_scratch(evaluator: Evaluator, state: State) -> Cost:
    return evaluator.cost(state, evaluator.new_scratch())


MANY_PICKS = st.lists(st.lists(st.integers(0, 10_000), max_size=8), min_size=1, max_size=6)


@pytest.mark.parametrize("device", DEVICES)
@given(picks=MANY_PICKS)
@settings(deadline=None)
def test_a_state_costs_the_same_whatever_was_priced_before(
    device: str, picks: list[list[int]]
) -> None:
    evaluator = training_step(device)
    scratch = evaluator.new_scratch()
    for state in states_of(device, picks):
        assert evaluator.cost(state, scratch) == from_scratch(evaluator, state)


@given(picks=MANY_PICKS)
@settings(deadline=None)
def test_a_scratch_holds_what_one_priced_from_scratch_holds(picks: list[list[int]]) -> None:
    evaluator = training_step(TPU)
    used, fresh = evaluator.new_scratch(), evaluator.new_scratch()
    states = states_of(TPU, picks)
    for state in states:
        evaluator.cost(state, used)
    evaluator.cost(states[-1], fresh)
    for name in ("mask", "shards", "local", "reduced", "delta", "root_seconds", "part_seconds"):
        assert np.array_equal(getattr(used, name), getattr(fresh, name)), name
    for name in ("edge_seconds", "live_held", "copy_held", "sum_held"):
        assert np.array_equal(getattr(used, name), getattr(fresh, name)), name


@pytest.mark.parametrize("threads", [1, 2, 3])
@given(picks=st.lists(st.lists(st.integers(0, 10_000), max_size=5), max_size=3 * FEWEST))
@settings(deadline=None, max_examples=20)
def test_many_states_cost_what_each_costs(threads: int, picks: list[list[int]]) -> None:
    evaluator = training_step(TPU)
    states = states_of(TPU, picks)
    expected = [from_scratch(evaluator, state) for state in states]
    assert evaluator.costs(states, threads) == expected


def test_states_of_another_program_are_refused() -> None:
    evaluator = training_step(TPU)
    known, other = actions(TPU)[:1], (Action(group=10**6, axis=0),)
    with pytest.raises(IndexError, match="not there"):
        evaluator.costs([known, other])


def test_the_same_layout_again_prices_nothing() -> None:
    evaluator, scratch = training_step(TPU), training_step(TPU).new_scratch()
    evaluator.cost(actions(TPU)[:3], scratch)
    assert scratch.stale.all()
    evaluator.cost(actions(TPU)[:3], scratch)
    assert not scratch.stale.any()


def test_a_journal_tells_of_all_rows_each_time() -> None:
    evaluator = training_step(TPU)
    evaluator.cost(actions(TPU)[:3])
    first, second = (resolve(evaluator, actions(TPU)[:3]).journal for _ in range(2))
    assert np.array_equal(first, second)
    assert len(first) > len(evaluator.tables.root_weight)


def two_products() -> Evaluator:
    """Two matrix products that have nothing in common."""
    lines = [product("a:8x8xf32", "x:8x16xf32", "v:16x8xf32")]
    lines += [maps("tanh", "b:8x8xf32", "a"), product("c:4x4xf32", "y:4x32xf32", "w:32x4xf32")]
    given = "x:8x16xf32 v:16x8xf32 y:4x32xf32 w:32x4xf32"
    return evaluator_of(main(given, lines, "b:8x8xf32 c:4x4xf32"), "a=2")


def test_only_rows_of_changed_units_are_priced_again() -> None:
    evaluator = two_products()
    scratch = evaluator.new_scratch()
    analysis, tables = evaluator.analysis, evaluator.folded
    evaluator.cost((), scratch)
    evaluator.cost((Action(group=argument_group(analysis, 2, 0), axis=0),), scratch)
    first = tables.term_first
    stale = [scratch.stale[first[k] : first[k + 1]] for k in range(len(first) - 1)]
    assert 0 < stale[ROOTS].sum() < len(stale[ROOTS])
    assert 0 < stale[LIVES].sum() < len(stale[LIVES])
    names = [dims for _, dims in evaluator.layouts.tensors]
    for row in np.flatnonzero(stale[ROOTS]):
        a, b = tables.root_tensor_start[row], tables.root_tensor_start[row + 1]
        shapes = [tuple(size for size, _ in names[k]) for k in tables.root_tensor[a:b]]
        assert (4, 4) in shapes


def columns_of_nothing() -> dict[str, np.ndarray]:
    """The columns of tables without rows, over three units of one item and a tensor each."""
    layouts = {"unit_start", "tensor_itemsize", "tensor_start", "dim_item"}
    columns = {name for name in Tables._fields if name not in layouts}
    return {
        "unit_start": np.arange(4),
        "tensor_itemsize": np.ones(3),
        "tensor_start": np.arange(4),
        "dim_item": np.arange(3),
        **{name: np.zeros(int(name.endswith("_start")), dtype=np.int64) for name in columns},
    }


def terms_of(columns: dict[str, np.ndarray], unit: int) -> list[tuple[int, int]]:
    """(table, row) of what depends on a unit."""
    found = dependency_columns(columns)
    a, b = found["unit_term_start"][unit : unit + 2]
    first = found["term_first"]
    tables = np.searchsorted(first, found["unit_term"][a:b], side="right") - 1
    rows = found["unit_term"][a:b] - first[tables]
    return list(zip(tables.tolist(), rows.tolist(), strict=True))


def test_a_program_without_rows_has_no_dependencies() -> None:
    found = dependency_columns(columns_of_nothing())
    assert found["term_first"].tolist() == [0] * 8
    assert found["unit_term"].tolist() == []
    assert found["unit_tensor"].tolist() == [0, 1, 2]
    assert found["unit_tensor_start"].tolist() == [0, 1, 2, 3]


def test_an_edge_depends_on_both_of_its_ends() -> None:
    ends = {"edge_weight": np.ones(1), "edge_from": np.array([0]), "edge_to": np.array([2])}
    columns = columns_of_nothing() | ends | {"edge_to_start": np.array([0, 1])}
    assert [terms_of(columns, unit) for unit in range(3)] == [[(EDGES, 0)], [], [(EDGES, 0)]]


def test_sums_that_are_added_to_others_depend_on_those() -> None:
    """The second row looks at the first one's axes; its own are of unit 2."""
    rows = {
        "part_weight": np.ones(2),
        "part_item_start": np.array([0, 1, 2]),
        "part_item": np.array([0, 2]),
        "part_result_start": np.array([0, 1, 2]),
        "part_computed": np.array([1, 2]),
        "part_defined": np.array([1, 2]),
        "part_before": np.array([-1, 0]),
    }
    columns = columns_of_nothing() | rows
    assert terms_of(columns, 0) == [(PARTIALS, 0), (PARTIALS, 1)]
    assert terms_of(columns, 1) == [(PARTIALS, 0), (PARTIALS, 1)]
    assert terms_of(columns, 2) == [(PARTIALS, 1)]


def test_a_tensor_without_items_depends_on_no_unit() -> None:
    scalar = {"tensor_start": np.array([0, 1, 2, 2]), "dim_item": np.array([0, -1])}
    found = dependency_columns(columns_of_nothing() | scalar)
    assert found["unit_tensor"].tolist() == [0]
