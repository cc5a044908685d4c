"""Pricing only what changed: exactly the price from scratch, whatever was priced before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.nets import chain, step
from examples import gemma
from tests.costmodel.profiles import holding
from tests.costmodel.records import assert_equal_columns
from tests.costmodel.texts import GPU, TPU, main, maps, product
from tests.laws.states import every_action
from tests.modules import analysed, argument_group, evaluator_of
from toast.analysis.program import Ints
from toast.costmodel.evaluator import Action, Cost, Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.dependents import OwningUnits, Pairs, dependents, owning_units
from toast.costmodel.terms.partial_sums import partial_sum_dependencies
from toast.costmodel.terms.reshards import Reshards, reshard_dependencies
from toast.costmodel.terms.units import Units
from toast.search.actions import action_space

FEWEST = 16


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


@cache
def partly_on_chip() -> Evaluator:
    """A chip that holds a part of what is alive."""
    analysis, mesh = training_step(TPU).analysis, Mesh.parse("data=2,model=8")
    return Evaluator(analysis, mesh, find(TPU), profile=holding(TPU, 2**18))


@cache
def pressed() -> Evaluator:
    """A chip without room, whose compiler lets go of what some layouts make large enough."""
    analysis, mesh = training_step(TPU).analysis, Mesh.parse("data=2,model=8")
    chip = replace(find(TPU), memory_bytes=2**16, reserved_bytes=0)
    profile = holding(TPU, 0).changed({"rematerialization": {"least_bytes": 2**14}})
    return Evaluator(analysis, mesh, chip, profile=profile)


@cache
def few_images() -> Evaluator:
    """Batches of 8 over up to 8 devices: some states make blocks, others do not."""
    return evaluator_of(chain(8, 32, (64, 128, 64)), "a=2,b=4", TPU)


@cache
def net_without_room() -> Evaluator:
    """Images, filters and their gradients on a chip with little memory."""
    chip = replace(find(TPU), memory_bytes=2**24, reserved_bytes=0)
    analysis, mesh = analysed(step(16, 16, 64, 4, True)), Mesh.parse("data=2,model=4")
    return Evaluator(analysis, mesh, chip, profile=holding(TPU, 0))


PRICED: dict[str, Callable[[], Evaluator]] = {
    "a step on a TPU": lambda: training_step(TPU),
    "a step on a GPU": lambda: training_step(GPU),
    "a step partly on the chip": partly_on_chip,
    "a step that is pressed": pressed,
    "few images": few_images,
    "a net that is pressed": net_without_room,
}


@pytest.mark.parametrize("name", PRICED)
@given(picks=MANY_PICKS)
def test_a_state_costs_the_same_whatever_was_priced_before(
    name: str, picks: list[list[int]]
) -> None:
    evaluator = PRICED[name]()
    known, scratch = every_action(evaluator), evaluator.new_scratch()
    for state in picks:
        actions = tuple(known[pick % len(known)] for pick in state)
        assert evaluator.cost(actions, scratch) == from_scratch(evaluator, actions)


@given(picks=MANY_PICKS)
def test_a_scratch_holds_what_one_priced_from_scratch_holds(picks: list[list[int]]) -> None:
    evaluator = training_step(TPU)
    used, fresh = evaluator.new_scratch(), evaluator.new_scratch()
    states = states_of(TPU, picks)
    for state in states:
        evaluator.cost(state, used)
    evaluator.cost(states[-1], fresh)
    for name in ("units", "tensors", "schedule", "fusions", "partial_sums", "reshards"):
        part, same = getattr(used, name), getattr(fresh, name)
        assert_equal_columns(part, same, but=frozenset({"stale"}))
    for part, same in (
        (used.live_ranges.held, fresh.live_ranges.held),
        (used.copies.held, fresh.copies.held),
        (used.sums.held, fresh.sums.held),
    ):
        assert np.array_equal(part, same)


@pytest.mark.parametrize("device", [TPU, GPU])
@given(picks=MANY_PICKS)
def test_what_is_decided_of_sums_is_what_a_journal_has(device: str, picks: list[list[int]]) -> None:
    """Whatever was priced before, and without a journal."""
    evaluator = training_step(device)
    known, scratch = every_action(evaluator), evaluator.new_scratch()
    for state in picks:
        actions = tuple(known[pick % len(known)] for pick in state)
        evaluator.cost(actions, scratch)
        decided, resolved = scratch.reduce_scatters, resolve(evaluator, actions)
        for name in ("reason", "whole", "constrained", "ordered"):
            same = getattr(resolved.scratch.reduce_scatters, name)
            assert np.array_equal(getattr(decided, name), same), name


@pytest.mark.parametrize("threads", [1, 2, 3])
@given(picks=st.lists(st.lists(st.integers(0, 10_000), max_size=5), max_size=3 * FEWEST))
@settings(max_examples=20)
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
    assert scratch.changes.stale.all()
    evaluator.cost(actions(TPU)[:3], scratch)
    assert not scratch.changes.stale.any()


def test_a_journal_tells_of_all_rows_each_time() -> None:
    evaluator = training_step(TPU)
    evaluator.cost(actions(TPU)[:3])
    first, second = (resolve(evaluator, actions(TPU)[:3]).journal for _ in range(2))
    assert np.array_equal(first, second)
    assert len(first) > len(evaluator.tables.fusions.weight)


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
    fusions, ranges = scratch.fusions.stale, scratch.live_ranges.stale
    assert 0 < fusions.sum() < len(fusions)
    assert 0 < ranges.sum() < len(ranges)
    names = [dims for _, dims in evaluator.layouts.tensors]
    for row in np.flatnonzero(fusions):
        a, b = tables.fusions.tensor_start[row], tables.fusions.tensor_start[row + 1]
        shapes = [tuple(size for size, _ in names[k]) for k in tables.fusions.tensor[a:b]]
        assert (4, 4) in shapes


def owners_of_three() -> OwningUnits:
    """Three units of one item and a tensor each."""
    return OwningUnits(item=np.arange(3), tensor=np.arange(3), table=np.full(3, -1))


def rows_of_unit(pairs: Pairs, unit: int) -> list[int]:
    return sorted(set(pairs[pairs[:, 1] == unit, 0].tolist()))


def some(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


def test_a_program_without_rows_has_no_dependencies() -> None:
    units = unit_of_items(3)
    found = dependents(units, owners_of_three(), [(0, np.zeros((0, 2), dtype=np.int64))])
    assert found.row_start.tolist() == [0] * 4
    assert found.row.tolist() == []
    assert found.tensor.tolist() == [0, 1, 2]
    assert found.tensor_start.tolist() == [0, 1, 2, 3]


def unit_of_items(count: int) -> Units:
    """As many units of one item each."""
    return training_step(TPU).tables.units._replace(start=np.arange(count + 1))


def test_rows_of_all_terms_have_one_numbering() -> None:
    pairs = [(2, np.array([[1, 0]])), (3, np.array([[0, 0], [2, 1], [2, -1]]))]
    found = dependents(unit_of_items(3), owners_of_three(), pairs)
    assert found.row.tolist() == [1, 2, 4]
    assert found.row_start.tolist() == [0, 2, 3, 3]


def test_resharding_depends_on_both_of_its_ends() -> None:
    rows = Reshards(
        weight=np.ones(1),
        source=some(0),
        given=some(0),
        target_start=some(0, 1),
        target=some(2),
        target_trips=np.ones(1),
        target_narrow=some(0),
    )
    pairs = reshard_dependencies(rows, owners_of_three())
    assert [rows_of_unit(pairs, unit) for unit in range(3)] == [[0], [], [0]]


def test_sums_that_are_added_to_others_depend_on_those() -> None:
    """The second row looks at the first one's axes; its own are of unit 2."""
    sums = training_step(TPU).tables.partial_sums._replace(
        weight=np.ones(2),
        item_start=some(0, 1, 2),
        item=some(0, 2),
        result_start=some(0, 1, 2),
        computed=some(1, 2),
        defined=some(1, 2),
        added_to=some(-1, 0),
        cut=some(-1, -1),
    )
    pairs = partial_sum_dependencies(sums, owners_of_three())
    assert [rows_of_unit(pairs, unit) for unit in range(3)] == [[0, 1], [0, 1], [1]]


def test_a_tensor_without_items_depends_on_no_unit() -> None:
    tensors = training_step(TPU).tables.tensors._replace(
        itemsize=np.ones(3),
        start=some(0, 1, 2, 2),
        dim_item=some(0, -1),
        table=some(-1, 0, -1),
    )
    owners = owning_units(unit_of_items(3), tensors)
    assert owners.tensor.tolist() == [0, -1, -1]
    assert owners.table.tolist() == [-1, 0, -1]
