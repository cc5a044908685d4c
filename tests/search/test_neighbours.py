"""What is one change away from a state: each kind of change, and what is left out."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from tests.modules import argument_group, text
from tests.search.known_layouts.planned import problem_of as planning
from tests.search.known_layouts.steps import mlp_training
from tests.search.problems import gemma_problem, problem_of
from toast.costmodel.evaluator import Action, State
from toast.search.neighbours import ChangeSite, Space, over
from toast.search.problem import Problem
from toast.search.symmetric_groups import moves, over_all_axes

MAX_DEPTH = 128


@cache
def mlp() -> Problem:
    return problem_of(text("mlp"), "a=2,b=2,c=2")


def groups() -> tuple[int, int]:
    """Two groups of the multi-layer perceptron that meet: its rows and its hidden columns."""
    analysis = mlp().evaluator.analysis
    return argument_group(analysis, 0, 0), argument_group(analysis, 1, 1)


def act(group: int, axis: int) -> Action:
    return Action(group=group, axis=axis)


def at(group: int) -> ChangeSite:
    (place,) = (place for place in Space(mlp()).sites() if place.groups == (group,))
    return place


def test_groups_that_meet_stand_in_one_unit() -> None:
    rows, hidden = groups()
    meet = Space(mlp()).meet
    assert hidden in meet[rows]
    assert rows in meet[hidden]
    tables = mlp().evaluator.tables
    items = tables.units.item_group.tolist()
    units = [set(items[a:b]) for a, b in pairwise(tables.units.start.tolist())]
    for one, others in meet.items():
        for other in meet:
            together = one != other and any({one, other} <= unit for unit in units)
            assert (other in others) == together


def test_a_group_is_laid_over_every_set_of_axes_that_two_changes_make_in_one() -> None:
    rows, hidden = groups()
    state = (act(hidden, 2), act(rows, 0))
    reached = {
        frozenset(action.axis for action in longer if action.group == rows)
        for longer in at(rows).changes(state)
        if {action for action in longer if action.group == hidden} == {act(hidden, 2)}
    }
    sets = {frozenset(a for a in range(3) if mask >> a & 1) for mask in range(8)}
    assert reached | {frozenset({0})} == sets - {frozenset({1, 2})}


def test_what_is_new_is_tried_before_and_after_what_it_competes_with() -> None:
    rows, hidden = groups()
    found = at(rows).changes((act(hidden, 0), act(hidden, 1)))
    assert (act(rows, 0), act(hidden, 0), act(hidden, 1)) in found
    assert (act(hidden, 0), act(hidden, 1), act(rows, 0)) in found
    assert (act(hidden, 0), act(rows, 0), act(hidden, 1)) not in found  # says the same as the last


def test_orders_change_only_between_actions_that_compete() -> None:
    rows, hidden = groups()
    together = at(rows).changes((act(rows, 0), act(hidden, 0)))
    apart = at(rows).changes((act(rows, 0), act(hidden, 1)))
    assert (act(hidden, 0), act(rows, 0)) in together
    same = [state for state in apart if set(state) == {act(rows, 0), act(hidden, 1)}]
    assert len(same) <= 1


def test_a_group_hands_over_what_it_has_on_one_axis_and_on_all() -> None:
    rows, hidden = groups()
    found = at(rows).changes((act(rows, 0), act(rows, 1)))
    assert (act(hidden, 0), act(rows, 1)) in found
    assert (act(hidden, 0), act(hidden, 1)) in found
    assert (act(rows, 2), act(rows, 1)) in found


def test_two_axes_are_exchanged() -> None:
    rows, hidden = groups()
    exchanges = [place for place in Space(mlp()).sites() if not place.groups]
    assert len(exchanges) == 3
    found = [
        state for place in exchanges for state in place.changes((act(rows, 0), act(hidden, 1)))
    ]
    assert (act(rows, 1), act(hidden, 0)) in found


def test_resolutions_change_on_one_axis_and_on_all() -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    group = argument_group(problem.evaluator.analysis, 0, 0)
    one, other = Action(group=group, axis=0), Action(group=group, axis=1)
    turned = [Action(group=group, axis=axis, bits=1) for axis in (0, 1)]
    (place,) = (place for place in Space(problem).sites() if place.groups == (group,))
    found = place.changes((one, other))
    assert (turned[0], other) in found
    assert tuple(turned) in found


@pytest.mark.parametrize("length", [0, 1, 6])
def test_neighbours_are_other_states_of_the_problem_and_none_twice_at_a_place(length: int) -> None:
    problem = gemma_problem()
    state = problem.actions[::3][:length]
    allowed = set(problem.actions)
    for place in Space(problem).sites():
        found = place.changes(state)
        assert len(set(found)) == len(found)
        assert all(set(other) <= allowed and len(set(other)) == len(other) for other in found)
        if place.groups:  # two axes without actions may be exchanged for nothing
            assert state not in found


def test_no_state_becomes_longer_than_a_path() -> None:
    rows, _ = groups()
    state: State = (*(act(rows + 1000, 0),) * (MAX_DEPTH - 1), act(rows, 0))
    assert all(len(other) <= MAX_DEPTH for other in at(rows).changes(state))


def test_symmetric_groups_are_laid_out_as_one() -> None:
    step = mlp_training(layers=2, width=8192, hidden=32768, tokens=16384)
    space = Space(planning(step, "data=4,model=2"))
    places = {place.groups: place for place in space.sites()}
    assert space.symmetric
    for alike in space.symmetric:
        found = places[alike].changes(())
        wanted = {(group, axis) for group in alike for axis in space.axes}
        assert any({(a.group, a.axis) for a in state} == wanted for state in found)


def test_a_group_over_no_axes_is_gone() -> None:
    rows, hidden = groups()
    state = (act(rows, 0), act(hidden, 1))
    assert set(over(state, {rows: 0}, set())) == {(act(hidden, 1),)}
    assert set(over(state, {rows: 0}, {0, 1})) == {
        (act(rows, 0), act(hidden, 1), act(rows, 1)),
        (act(rows, 1), act(rows, 0), act(hidden, 1)),
    }


def test_moves_over_all_axes_hold_every_action_once_and_one_group_each() -> None:
    single = moves(gemma_problem())
    joined = over_all_axes(single)
    assert sorted(a for move in joined for a in move) == sorted(gemma_problem().actions)
    assert 2 * len(joined) == len(single)
    for move in joined:
        axes = {group: [a.axis for a in move if a.group == group] for group, *_ in move_rows(move)}
        assert all(sorted(on) == [0, 1] for on in axes.values())


def move_rows(move: State) -> list[tuple[int, int, int]]:
    return [(action.group, action.axis, action.bits) for action in move]


def test_on_one_axis_the_moves_over_all_axes_are_the_single_ones() -> None:
    single = moves(problem_of(text("mlp"), "a=4"))
    assert sorted(over_all_axes(single)) == sorted(single)
