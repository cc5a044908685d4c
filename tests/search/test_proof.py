"""A bound for the plan of any planner, and long calls that are left behind at a stop."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.modules import text
from tests.search.problems import fresh, gemma_problem, problem_of
from toast.search.background_task import in_background
from toast.search.pairwise.bound import lower_bounds
from toast.search.pairwise.proofs import PRICED
from toast.search.pairwise.solve import Solution, solve
from toast.search.planners import PLANNERS
from toast.search.problem import SearchSettings
from toast.search.progress import Control, Progress
from toast.search.proof import bound, prove
from toast.search.relaxation import Relaxation

QUICK = SearchSettings(rollouts=200, round_rollouts=100, ilp_seconds=5, proof_seconds=5)


@pytest.mark.parametrize("planner", ["mcts", "greedy", "random", "beam"])
def test_no_state_is_below_the_bound_of_any_plan(planner: str) -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    found = prove(problem, PLANNERS[planner](problem, QUICK, Control()), QUICK, Control())
    assert found.bound is not None
    assert found.relaxation in ("branch and bound", "linear relaxation")
    states = [state for n in range(3) for state in itertools.permutations(problem.actions, n)]
    assert found.bound <= min(problem.cost(state)[0] for state in states)


def test_a_bound_below_no_time_proves_nothing() -> None:
    problem = problem_of(text("mlp"), "a=2")
    found = PLANNERS["greedy"](problem, QUICK, Control())
    answer = Solution(choice=[0], cost=1.0, bound=-0.5, relaxation=PRICED, proved=False)
    assert bound(found, answer) is found
    assert bound(found, replace(answer, bound=0.0)).relaxation == PRICED


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


def test_a_background_task_gives_back_what_work_gives() -> None:
    assert in_background(lambda: 7, Control()) == 7


def test_a_background_task_raises_what_work_raises() -> None:
    def work() -> int:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        in_background(work, Control())


def test_work_that_does_not_hear_a_stop_is_left_behind() -> None:
    asked, release = threading.Event(), threading.Event()
    threads = []

    def work() -> int:
        threads.append(threading.current_thread())
        asked.set()
        release.wait(60)
        return 7

    assert in_background(work, Control(cancelled=asked.is_set)) is None
    assert threads[0].is_alive()
    release.set()
    threads[0].join(10)
    assert not threads[0].is_alive()


def test_a_bound_is_a_choice_that_costs_as_much_or_below_all_of_them() -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    instance = Relaxation(problem).instance()
    best = solve(instance, seconds=20).cost
    for known in (best, best * 1.5, best * 10):
        found = list(lower_bounds(instance, known, seconds=20))
        assert found[-1][0] == pytest.approx(best, rel=1e-6)
        assert found == sorted(found, key=lambda proof: proof[0])
        assert {why for _, why in found} <= {"branch and bound", "linear relaxation"}
    ((bound, _),) = lower_bounds(instance, best * 0.9, seconds=20)
    assert bound == pytest.approx(best * 0.9)


def test_without_time_there_is_no_bound() -> None:
    instance = Relaxation(fresh(gemma_problem())).instance()
    assert list(lower_bounds(instance, 1.0, seconds=0.0)) == []


def test_what_was_proved_before_a_stop_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branch and bound that does not end in time leaves the bound of the relaxation."""
    asked, release = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> Iterator[tuple[float, str]]:
        yield 0.125, "linear relaxation"
        asked.set()
        release.wait(60)

    monkeypatch.setattr("toast.search.proof.lower_bounds", slow)
    problem = problem_of(text("mlp"), "a=2")
    found = PLANNERS["greedy"](problem, QUICK, Control())
    proved = prove(problem, found, QUICK, Control(cancelled=asked.is_set))
    release.set()
    assert proved.bound == pytest.approx(0.125, rel=1e-5)
    assert proved.relaxation == "linear relaxation"
