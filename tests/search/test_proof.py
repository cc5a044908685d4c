"""A bound for the plan of any planner, and long calls that are left behind at a stop."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from search.aside import aside
from search.planners import PLANNERS
from search.problem import Settings
from search.progress import Control, Progress
from search.proof import prove
from tests.modules import text
from tests.search.problems import fresh, gemma_problem, problem_of

QUICK = Settings(rollouts=200, round_rollouts=100, ilp_seconds=5)


@pytest.mark.parametrize("planner", ["mcts", "greedy", "random", "beam"])
def test_no_state_is_below_the_bound_of_any_plan(planner: str) -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    found = prove(problem, PLANNERS[planner](problem, QUICK, Control()), QUICK, Control())
    assert found.bound is not None
    assert found.relaxation in ("branch and bound", "linear relaxation")
    states = [state for n in range(3) for state in itertools.permutations(problem.actions, n)]
    assert found.bound <= min(problem.cost(state)[0] for state in states)


def test_a_bound_that_is_there_is_kept() -> None:
    problem = problem_of(text("mlp"), "a=2")
    found = PLANNERS["ilp"](problem, QUICK, Control())
    assert found.bound is not None
    assert prove(problem, found, QUICK, Control()) is found


def test_without_actions_the_only_state_is_the_bound() -> None:
    problem = replace(problem_of(text("mlp"), "a=2"), actions=())
    found = prove(problem, PLANNERS["mcts"](problem, QUICK, Control()), QUICK, Control())
    assert found.bound == found.cost


def test_a_proof_that_must_stop_leaves_the_plan_as_it_was() -> None:
    problem = fresh(gemma_problem())
    found = PLANNERS["greedy"](problem, QUICK, Control())
    assert prove(problem, found, QUICK, Control(cancelled=lambda: True)) is found
    assert prove(problem, found, QUICK, Control(budget=0.0)) is found
    looks = itertools.count()
    stopped = prove(problem, found, QUICK, Control(cancelled=lambda: next(looks) > 1))
    assert stopped.state == found.state


def test_a_proof_tells_the_best_plan() -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    found = PLANNERS["greedy"](problem, QUICK, Control())
    seen: list[Progress] = []
    prove(problem, found, QUICK, Control(on_progress=seen.append))
    assert seen
    assert {progress.best_cost for progress in seen} == {found.cost}
    assert all(progress.best_bytes > 0 for progress in seen)


def test_aside_gives_back_what_work_gives() -> None:
    assert aside(lambda: 7, Control()) == 7


def test_aside_raises_what_work_raises() -> None:
    def work() -> int:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        aside(work, Control())


def test_work_that_does_not_hear_a_stop_is_left_behind() -> None:
    asked, release = threading.Event(), threading.Event()
    threads = []

    def work() -> int:
        threads.append(threading.current_thread())
        asked.set()
        release.wait(60)
        return 7

    assert aside(work, Control(cancelled=asked.is_set)) is None
    assert threads[0].is_alive()
    release.set()
    threads[0].join(10)
    assert not threads[0].is_alive()
