"""The tree over rewritings, on rewritings whose gain is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.toast.recompute.layered import step_of
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.mcts import search
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control
from toast.search.rewritings import PlannedRewriting, RewritingSearch, RewritingSpace

SETTINGS = SearchSettings(rollouts=200, threads=1)


def problem(rows: int, memory: float = 1e12) -> Problem:
    """A step with so many rows: fewer rows stand for a rewriting that saves that work."""
    program = analyse(load(step_of(2, rows=rows).encode()).program)
    evaluator = Evaluator(program, Mesh.parse("data=2"), find("tpu-v5e"))
    return Problem(
        evaluator=evaluator,
        reward=evaluator.reward(memory, 10.0),
        actions=action_space(evaluator),
    )


def root(of: Problem) -> PlannedRewriting[int]:
    """The program as it is, with its best plan."""
    return PlannedRewriting(rewriting=0, problem=of, found=search(of, SETTINGS, Control()))


def test_the_best_of_a_chain_is_reached() -> None:
    """Each rewriting halves the work; the tree goes on while that pays."""
    rows = [1 << 16, 1 << 15, 1 << 14, 1 << 13]
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one + 1] if one + 1 < len(rows) else [],
        problem=lambda one: problem(rows[one]),
        patience=2,
    )
    best = RewritingSearch(root(problem(rows[0])), space, SETTINGS, Control()).run()
    assert best.rewriting == len(rows) - 1


def test_a_detour_is_left_when_it_brings_nothing() -> None:
    """One branch doubles the work without end, the other halves it: both are begun."""
    rows = {0: 1 << 14}

    def moves(one: int) -> Sequence[int]:
        rows.setdefault(one + 1, 2 * rows[one])
        rows.setdefault(one - 1, rows[one] // 2)
        return [one + 1] if one > 0 else [one - 1] if one < 0 else [1, -1]

    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: moves(one) if abs(one) < 5 else [],
        problem=lambda one: problem(rows[one]),
        patience=3,
    )
    tree = RewritingSearch(root(problem(rows[0])), space, SETTINGS, Control())
    assert tree.run().rewriting < -2
    made = [one.rewriting for one in tree.planned]
    assert 1 in made
    assert len([one for one in made if one > 0]) < len([one for one in made if one < 0])


def test_what_does_not_fit_is_left_for_what_does() -> None:
    """Where nothing fits the search goes on until something does."""
    whole = problem(1 << 16)
    peak = root(whole).cost.peak
    tight = replace(whole, reward=replace(whole.reward, memory=0.3 * peak))
    rows = [1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 12]
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one + 1] if one + 1 < len(rows) else [],
        problem=lambda one: problem(rows[one]),
        patience=1,
    )
    best = RewritingSearch(root(tight), space, SETTINGS, Control()).run()
    assert best.rewriting == len(rows) - 1
    assert best.badness()[0] == 0


def test_a_rewriting_that_cannot_be_made_is_passed_over() -> None:
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [1, 2] if one == 0 else [],
        problem=lambda one: None if one == 1 else problem(1 << 10),
        patience=2,
    )
    tree = RewritingSearch(root(problem(1 << 14)), space, SETTINGS, Control())
    assert tree.run().rewriting == 2
    assert [one.rewriting for one in tree.planned] == [0, 2]


def test_out_of_time_the_program_is_left_as_it_is() -> None:
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one + 1], problem=lambda _: problem(8), patience=2
    )
    tree = RewritingSearch(root(problem(64)), space, SETTINGS, Control(budget=0.0))
    assert tree.run().rewriting == 0
    assert len(tree.planned) == 1
