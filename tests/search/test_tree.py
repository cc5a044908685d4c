"""The tree of the search: one node a layout, no dead actions, rounds, and what ends them."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.modules import text
from tests.search.problems import ALONE, layered_problem, problem_of
from toast.costmodel.evaluator import State
from toast.search import mcts
from toast.search.actions import prune_threshold
from toast.search.mcts import TreeSearch
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control, Progress
from toast.search.tree import DEAD, SELECTIONS, SHAPINGS, UNTRIED, reward_of


@cache
def small(name: str) -> Problem:
    return problem_of(text(name), "data=2,model=4")


def states(grown: TreeSearch, most: int) -> Iterator[tuple[int, State]]:
    """Nodes of a tree with every sequence of actions that leads to them along its edges."""
    actions = grown.problem.actions
    level: list[tuple[int, State]] = [(0, ())]
    for node, state in itertools.islice(iter(level), most):
        yield node, state
        for number, child in enumerate(grown.tree.children[node, :-1].tolist()):
            if child > 0:
                level.append((child - 1, (*state, actions[number])))


@cache
def grown(name: str) -> TreeSearch:
    chosen = small(name) if name != "gemma" else layered_problem()
    tree = TreeSearch(chosen, ALONE, Control())
    assert tree.run_round() is None
    return tree


@pytest.mark.parametrize(
    "name", [pytest.param("gemma", marks=pytest.mark.nightly), "mlp", "attention"]
)
def test_a_node_is_a_layout_however_it_is_reached(name: str) -> None:
    tree, layouts = grown(name), dict[int, bytes]()
    paths = 0
    for node, state in states(tree, 600):
        layout = tree.problem.evaluator.masks(state).tobytes()
        paths += node in layouts
        assert layouts.setdefault(node, layout) == layout
    assert len(set(layouts.values())) == len(layouts)
    assert paths > 0  # some node was reached in two orders


@pytest.mark.parametrize("name", ["gemma", "mlp", "attention"])
def test_what_changes_nothing_leaves_the_set_and_nothing_else_does(name: str) -> None:
    tree = grown(name)
    actions, evaluator = tree.problem.actions, tree.problem.evaluator
    dead = 0
    for node, state in states(tree, 200):
        for number, child in enumerate(tree.tree.children[node, :-1].tolist()):
            longer = evaluator.masks((*state, actions[number]))
            same = bool(np.array_equal(longer, evaluator.masks(state)))
            dead += child == DEAD
            assert same if child == DEAD else child == UNTRIED or not same
    assert dead > 0


def test_a_stop_is_tried_once_and_wastes_no_rollouts() -> None:
    tree = grown("gemma")
    children = [child - 1 for child in tree.tree.children[0].tolist() if child > 0]
    inside = sum(int(tree.tree.visits[child]) for child in children)
    assert tree.tree.children[0, -1] == DEAD
    assert tree.tree.visits[0] == ALONE.round_rollouts
    assert inside >= ALONE.round_rollouts - 1


ORDERS = st.lists(st.integers(0, 10_000), min_size=2, max_size=5).flatmap(
    lambda numbers: st.tuples(st.just(tuple(numbers)), st.permutations(numbers))
)


@given(ORDERS)
def test_keys_are_equal_exactly_where_layouts_are(orders: Any) -> None:
    evaluator, actions = layered_problem().evaluator, layered_problem().actions
    one, other = (tuple(actions[n % len(actions)] for n in order) for order in orders)
    same = np.array_equal(evaluator.masks(one), evaluator.masks(other))
    costs = evaluator.cost(one), evaluator.cost(other)
    assert (costs[0].key == costs[1].key) == same
    assert not same or costs[0] == costs[1]


@pytest.mark.parametrize("depth", [1, 3])
def test_no_trajectory_is_longer_than_the_depth(depth: int) -> None:
    settings = replace(ALONE, depth=depth, stop_chance=0.0)
    tree = TreeSearch(layered_problem(), settings, Control())
    lengths = set()
    for _ in range(3):
        assert tree.run_round() is None
        tree.adopt()
        lengths.add(len(tree.best))
        assert int(tree.workers[0].agent.best_length[0]) <= depth
    assert max(lengths) == depth
    assert SearchSettings().depth == 30


@pytest.mark.parametrize("shaping", SHAPINGS)
def test_of_equal_costs_the_shorter_trajectory_is_worth_more(shaping: str) -> None:
    rules = SimpleNamespace(
        shaping=SHAPINGS.index(shaping), discount=0.99, whole=0.0, span=math.log(8)
    )
    worth = [[reward_of.py_func(rules, cost, n) for n in (0, 1, 5)] for cost in (0.9, 0.5, 0.2)]
    for row in worth:
        assert row == sorted(row, reverse=True)
        assert len(set(row)) == len(row)
    assert [row[0] for row in worth] == sorted(row[0] for row in worth)
    assert max(map(max, worth)) <= 1.0


def test_the_log_of_the_reward_is_nothing_unsharded_and_one_for_a_perfect_division() -> None:
    rules = SimpleNamespace(
        shaping=SHAPINGS.index("log"), discount=0.99, whole=math.log(2.0), span=math.log(16)
    )
    worth = [reward_of.py_func(rules, cost, 0) for cost in (3.0, 2.0, 0.5, 2.0 / 16)]
    assert worth == pytest.approx([0.0, 0.0, 0.5, 1.0])


def test_rounds_start_from_the_best_and_end_when_one_does_not_improve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[State] = []
    plain = TreeSearch.run_round

    def spied(self: TreeSearch) -> str | None:
        rounds.append(self.best)
        return plain(self)

    monkeypatch.setattr(mcts.TreeSearch, "run_round", spied)
    found = mcts.search(layered_problem(), replace(ALONE, rollouts=20_000), Control())
    assert found.termination == "converged"
    costs = [layered_problem().cost(state)[0] for state in rounds]
    assert rounds[0] == ()
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(found.cost, rel=2e-4)
    assert all(later < earlier for earlier, later in itertools.pairwise(costs))


def test_the_rounds_alone_price_nothing_else() -> None:
    seen: list[Progress] = []
    settings = replace(ALONE, rollouts=500)
    alone = mcts.search(layered_problem(), settings, Control(on_progress=seen.append))
    helped = mcts.search(layered_problem(), replace(settings, helpers=True), Control())
    assert alone.evaluations <= 2 * alone.rollouts + 5
    assert helped.evaluations > 2 * helped.rollouts
    assert helped.cost <= alone.cost
    assert seen[-1].rounds >= 1


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("shaping", SHAPINGS)
def test_every_formula_finds_the_optimum_of_a_small_program(selection: Any, shaping: Any) -> None:
    settings = replace(ALONE, selection=selection, shaping=shaping)
    chosen = small("attention")
    pairs = (
        chosen.cost(state)[0]
        for length in range(3)
        for state in itertools.permutations(chosen.actions, length)
    )
    assert mcts.search(chosen, settings, Control()).cost <= min(pairs) * (1 + 1e-9)


def test_actions_are_mirrored_over_layers_and_do_not_grow_with_them() -> None:
    two, four = layered_problem(2), layered_problem(4)
    assert len(two.actions) == len(four.actions)
    assert {action.bits for action in two.actions} == {action.bits for action in four.actions}
    colour = four.evaluator.analysis.colours.colour
    groups = four.evaluator.analysis.groups.of_colour[colour[colour >= 0]]
    touched = np.bincount(groups, minlength=four.evaluator.analysis.groups.colours)
    assert prune_threshold(four.evaluator.analysis) == 10
    assert min(touched[action.group] for action in four.actions) >= 10


def test_small_programs_keep_actions_of_few_dimensions() -> None:
    analysis = small("mlp").evaluator.analysis
    colour = analysis.colours.colour
    groups = analysis.groups.of_colour[colour[colour >= 0]]
    touched = np.bincount(groups, minlength=analysis.groups.colours)
    assert prune_threshold(analysis) < 10
    assert min(touched[action.group] for action in small("mlp").actions) < 10


CHILD = """
import json
from dataclasses import asdict
from toast.search import mcts
from toast.search.progress import Control
from tests.search.problems import ALONE, layered_problem
from dataclasses import replace
found = mcts.search(layered_problem(), replace(ALONE, seed=7), Control())
print(json.dumps(asdict(found)))
"""


def test_another_process_finds_the_same_plan() -> None:
    here = mcts.search(layered_problem(), replace(ALONE, seed=7), Control())
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True
    )
    there = json.loads(child.stdout)
    state = [[action[name] for name in ("group", "axis", "bits")] for action in there.pop("state")]
    assert state == [[action.group, action.axis, action.bits] for action in here.state]
    assert there.pop("refinements") == list(here.refinements)
    assert Found(state=here.state, **there) == here


@pytest.mark.parametrize("selection", SELECTIONS)
def test_lost_counts_do_not_end_a_search(selection: Literal["puct", "ucb1"]) -> None:
    """Threads count visits without locks, and may take away one that was never seen."""
    tree = TreeSearch(layered_problem(), replace(ALONE, selection=selection), Control())
    assert tree.run_round() is None
    seen = tree.tree.visits > 0
    tree.tree.visits[seen] = -np.arange(seen.sum()) % 3 - 2
    before = tree.count_rollouts()
    assert tree.run_round() is None
    assert tree.count_rollouts() == before + ALONE.round_rollouts


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    tree = TreeSearch(layered_problem(), replace(ALONE, threads=2), Control())
    monkeypatch.setattr(mcts, "grow", fail)
    with pytest.raises(ZeroDivisionError):
        tree.run_round()
