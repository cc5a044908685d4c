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


def problem(rows: int, memory: float = 1e12, speed: float = 1.0) -> Problem:
    """A step with so many rows: fewer rows stand for a rewriting that saves that work."""
    program = analyse(load(step_of(2, rows=rows).encode()).program)
    chip = find("tpu-v5e")
    chip = replace(chip, element_rate=speed * chip.element_rate)
    evaluator = Evaluator(program, Mesh.parse("data=2"), chip)
    return Problem(
        evaluator=evaluator,
        reward=evaluator.reward(memory, 10.0),
        actions=action_space(evaluator),
    )


def root(of: Problem) -> PlannedRewriting[int]:
    """The program as it is, with its best plan."""
    return PlannedRewriting(rewriting=0, problem=of, found=search(of, SETTINGS, Control()))


def named(rows: int) -> PlannedRewriting[str]:
    """The program as it is, as the rewriting "none"."""
    whole = root(problem(rows))
    return PlannedRewriting(rewriting="none", problem=whole.problem, found=whole.found)


def test_the_best_of_a_chain_is_reached() -> None:
    """Each rewriting halves the work; the tree goes on while that pays."""
    rows = [1 << 16, 1 << 15, 1 << 14, 1 << 13]
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one.rewriting + 1] if one.rewriting + 1 < len(rows) else [],
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
        moves=lambda one: moves(one.rewriting) if abs(one.rewriting) < 5 else [],
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
        moves=lambda one: [one.rewriting + 1] if one.rewriting + 1 < len(rows) else [],
        problem=lambda one: problem(rows[one]),
        patience=1,
    )
    best = RewritingSearch(root(tight), space, SETTINGS, Control()).run()
    assert best.rewriting == len(rows) - 1
    assert best.badness()[0] == 0


def test_a_rewriting_that_cannot_be_made_is_passed_over() -> None:
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [1, 2] if one.rewriting == 0 else [],
        problem=lambda one: None if one == 1 else problem(1 << 10),
        patience=2,
    )
    tree = RewritingSearch(root(problem(1 << 14)), space, SETTINGS, Control())
    assert tree.run().rewriting == 2
    assert [one.rewriting for one in tree.planned] == [0, 2]


def test_out_of_time_the_program_is_left_as_it_is() -> None:
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one.rewriting + 1], problem=lambda _: problem(8), patience=2
    )
    tree = RewritingSearch(root(problem(64)), space, SETTINGS, Control(budget=0.0))
    assert tree.run().rewriting == 0
    assert len(tree.planned) == 1


def test_two_slow_rewritings_are_not_made_together() -> None:
    """Each of two alone gains nothing where a third does; both at once are never made."""
    rows = {"none": 1 << 15, "best": 1 << 12, "one": 1 << 15, "other": 1 << 15}
    start, asked = named(rows["none"]), list[str]()

    def made(one: str) -> Problem:
        asked.append(one)
        return problem(rows.get(one, 1 << 14))

    space: RewritingSpace[str] = RewritingSpace(
        moves=lambda one: {"none": ["best", "one", "other"], "one": ["both"]}.get(
            one.rewriting, []
        ),
        problem=made,
        patience=9,
        joins=lambda one: ("one", "other") if one == "both" else None,
    )
    assert RewritingSearch(start, space, SETTINGS, Control()).run().rewriting == "best"
    assert asked == ["best", "one", "other"]


def test_what_made_a_fitting_step_slower_is_not_done_again() -> None:
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one.rewriting + 1],
        problem=lambda one: problem(1 << (12 + one)),
        patience=9,
    )
    tree = RewritingSearch(root(problem(1 << 12)), space, SETTINGS, Control())
    assert tree.run().rewriting == 0
    assert [one.rewriting for one in tree.planned] == [0, 1]


def test_what_does_more_than_a_slow_rewriting_is_not_made() -> None:
    """One rewriting does what a slower one than the best does, and more: it is never made."""
    rows = {"none": 1 << 15, "best": 1 << 12, "slow": 1 << 14}
    start, asked = named(rows["none"]), list[str]()

    def made(one: str) -> Problem:
        asked.append(one)
        return problem(rows.get(one, 1 << 13))

    space: RewritingSpace[str] = RewritingSpace(
        moves=lambda one: ["best", "slow and more", "slow"] if one.rewriting == "none" else [],
        problem=made,
        patience=9,
        covers=lambda one, other: one.startswith(other),
    )
    assert RewritingSearch(start, space, SETTINGS, Control()).run().rewriting == "best"
    assert asked == ["best", "slow"]


def test_what_made_a_step_fit_and_slower_is_not_done_again() -> None:
    """Fewer rows on a slower chip stand for what saves memory and takes more time."""
    whole, again = problem(100_000), problem(80_000, speed=0.5)
    tight = replace(whole, reward=replace(whole.reward, memory=0.9 * root(whole).cost.peak))
    space: RewritingSpace[int] = RewritingSpace(
        moves=lambda one: [one.rewriting + 1], problem=lambda _: again, patience=9
    )
    tree = RewritingSearch(root(tight), space, SETTINGS, Control())
    assert tree.run().rewriting == 1
    assert [one.rewriting for one in tree.planned] == [0, 1]
