"""Whatever stage a stop finds the search in, few states are priced after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.search.problems import fresh, gemma_problem
from toast.costmodel.evaluator import Action, Cost
from toast.search import mcts
from toast.search.choices import choices
from toast.search.infeasible import closest_to_fitting
from toast.search.local_search import local_search
from toast.search.mcts import priors
from toast.search.planners import PLANNERS
from toast.search.problem import CHUNK as STATES
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control, Progress
from toast.search.tree import grow

CHUNK = 32

LATER = STATES + 12
"""States that may be priced from Python once the stop is there: a chunk, and the best once more."""


class Counting:
    """An evaluator that counts what is priced from Python, and says stop after so many."""

    def __init__(self, problem: Problem, stop_after: int) -> None:
        self._evaluator = problem.evaluator
        self.stop_after = stop_after
        self.priced = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def cost(self, state: Sequence[Action], scratch: Any = None) -> Cost:
        """As the evaluator's."""
        self.priced += 1
        return self._evaluator.cost(state, scratch)

    def costs(self, states: Sequence[Sequence[Action]], threads: int = 1) -> list[Cost]:
        """As the evaluator's."""
        self.priced += len(states)
        return self._evaluator.costs(states, threads)

    def stopped(self) -> bool:
        """Whether as many states as were allowed are priced."""
        return self.priced >= self.stop_after


def counted(stop_after: int) -> tuple[Problem, Counting, Control]:
    problem = fresh(gemma_problem())
    counting = Counting(problem, stop_after)
    evaluator: Any = counting
    return replace(problem, evaluator=evaluator), counting, Control(cancelled=counting.stopped)


@pytest.mark.parametrize("stop_after", [1, 20, 150, 400, 1500])
@pytest.mark.parametrize("planner", ["mcts", "beam", "greedy", "random"])
def test_every_stage_of_a_planner_hears_a_stop(planner: str, stop_after: int) -> None:
    problem, counting, control = counted(stop_after)
    settings = SearchSettings(rollouts=10**6, round_rollouts=100, stop_chance=0.5)
    found = PLANNERS[planner](problem, settings, control)
    assert counting.priced <= stop_after + LATER
    assert found.termination in ("cancelled", "converged")
    assert found.termination == "cancelled" or counting.priced <= stop_after + STATES
    assert found.cost == problem.cost(found.state)[0]


@pytest.mark.parametrize("stop_after", [1, 40, 300])
def test_what_comes_after_the_search_hears_a_stop(stop_after: int) -> None:
    state = fresh(gemma_problem()).actions[:4]
    for number in range(3):
        problem, counting, control = counted(10**9)
        found = Found.after(state, problem.cost(state)[0], 10**5, "converged")
        counting.priced, counting.stop_after = 0, stop_after
        if number == 0:
            local_search(problem, state, found.cost, control)
        elif number == 1:
            tight = replace(problem, reward=replace(problem.reward, memory=1.0))
            closest_to_fitting(tight, found, control)
        else:
            choices(problem, found, control)
        assert counting.priced <= stop_after + LATER


def test_priors_of_a_search_that_must_stop_price_nothing_more() -> None:
    problem, counting, control = counted(1)
    weights = priors(problem, 0.15, control)
    assert counting.priced == 1
    assert weights[:-1].sum() == pytest.approx(1.0)


def test_a_slow_chunk_is_halved_until_it_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:

    chunks: list[int] = []

    def watched(*arguments: Any) -> None:
        chunks.append(arguments[-1])
        grow(*arguments)

    monkeypatch.setattr(mcts, "grow", watched)
    monkeypatch.setattr(mcts, "LOOK_SECONDS", -1.0)
    problem = fresh(gemma_problem())
    settings = SearchSettings(rollouts=100, round_rollouts=100)
    PLANNERS["mcts"](problem, settings, Control())
    assert chunks[:7] == [CHUNK, CHUNK // 2, CHUNK // 4, CHUNK // 8, CHUNK // 16, 1, 1]
    assert sum(chunks) == 100


def test_how_long_chunks_are_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:

    settings = SearchSettings(rollouts=300, round_rollouts=150)
    first = PLANNERS["mcts"](fresh(gemma_problem()), settings, Control())
    monkeypatch.setattr(mcts, "LOOK_SECONDS", -1.0)
    assert PLANNERS["mcts"](fresh(gemma_problem()), settings, Control()) == first


def test_the_reported_cost_and_memory_are_of_one_state() -> None:
    problem = fresh(gemma_problem())
    seen: list[Progress] = []
    found = PLANNERS["mcts"](
        problem, SearchSettings(rollouts=600, round_rollouts=200), Control(on_progress=seen.append)
    )
    told = {(progress.best_cost, progress.best_bytes) for progress in seen}
    assert len(told) > 1
    bytes_of: dict[float, set[int]] = {}
    for cost, size in told:
        bytes_of.setdefault(cost, set()).add(size)
    assert all(len(sizes) == 1 for sizes in bytes_of.values())
    last = problem.evaluator.cost(found.state)
    assert any(size <= last.peak * 2 for _, size in told)


def test_a_share_of_a_budget_is_of_what_is_left() -> None:
    whole = Control(budget=10.0)
    part = whole.share(0.25)
    assert part.budget == pytest.approx(2.5, abs=0.1)
    assert Control(budget=0.0).share(0.5).stop_reason() == "budget"
    assert Control().share(0.5).budget is None
    assert Control(cancelled=lambda: True).share(0.5).stop_reason() == "cancelled"


def test_time_that_was_not_searching_is_left_out_of_a_budget() -> None:
    control = Control(budget=5.0)
    control.leave_out(control.elapsed() - 3.0)
    assert control.budget == pytest.approx(8.0, abs=0.1)
    free = Control()
    free.leave_out(0.0)
    assert free.budget is None
