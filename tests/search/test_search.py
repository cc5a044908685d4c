"""The search: repeatable, anytime, and better than its simpler peers."""

from __future__ import annotations

import itertools

import pytest

from tests.modules import argument_group, text
from tests.search.problems import gemma_problem, problem_of
from toast.costmodel.evaluator import Action
from toast.search.actions import prune_threshold
from toast.search.local_search import local_search
from toast.search.mcts import priors
from toast.search.planners import PLANNERS
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control, Progress

MAX_FREE_BITS = 4
MAX_DEPTH = 128

SMALL = SearchSettings(rollouts=600, round_rollouts=200, ilp_seconds=2)


def brute_force(problem: Problem, depth: int) -> float:
    best = problem.cost(())[0]
    for length in range(1, depth + 1):
        for state in itertools.permutations(problem.actions, length):
            best = min(best, problem.cost(state)[0])
    return best


@pytest.mark.parametrize("name", ["mlp", "attention", "transpose"])
def test_small_programs_are_solved_to_the_optimum(name: str) -> None:
    problem = problem_of(text(name), "a=2,b=2")
    found = PLANNERS["mcts"](problem, SMALL, Control())
    assert found.cost <= brute_force(problem, 3) * (1 + 1e-9)
    assert found.cost == problem.cost(found.state)[0]


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_a_seed_and_a_rollout_count_repeat(planner: str) -> None:
    settings = SearchSettings(seed=3, rollouts=300, round_rollouts=100)
    problem = gemma_problem() if planner != "ilp" else problem_of(text("attention"), "a=2,b=2")
    first, second = (PLANNERS[planner](problem, settings, Control()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_every_planner_improves_on_the_unsharded_program(planner: str) -> None:
    found = PLANNERS[planner](gemma_problem(), SMALL, Control())
    assert found.cost < 0.7
    assert found.evaluations > 1


def test_the_tree_search_is_at_least_as_good_as_greedy() -> None:
    greedy = PLANNERS["greedy"](gemma_problem(), SMALL, Control())
    found = PLANNERS["mcts"](
        gemma_problem(), SearchSettings(rollouts=3000, round_rollouts=1000), Control()
    )
    assert found.cost <= greedy.cost * (1 + 1e-9)


def test_threads_share_a_tree_and_find_a_plan_as_good() -> None:
    settings = SearchSettings(rollouts=2000, round_rollouts=1000, threads=2)
    found = PLANNERS["mcts"](gemma_problem(), settings, Control())
    greedy = PLANNERS["greedy"](gemma_problem(), SMALL, Control())
    assert found.cost <= greedy.cost * (1 + 1e-9)
    assert found.cost == gemma_problem().cost(found.state)[0]


def test_memory_that_is_short_changes_the_plan() -> None:
    free = PLANNERS["mcts"](gemma_problem(), SMALL, Control())
    peak = gemma_problem().evaluator.cost(free.state).peak
    tight = gemma_problem(peak * 0.8)
    found = PLANNERS["mcts"](tight, SearchSettings(rollouts=3000, round_rollouts=1000), Control())
    cost = tight.evaluator.cost(found.state)
    assert cost.peak < peak


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_cancel_stops_at_once_with_the_best_so_far(planner: str) -> None:
    looks = itertools.count()
    control = Control(cancelled=lambda: next(looks) > 1)
    found = PLANNERS[planner](gemma_problem(), SearchSettings(rollouts=10**6), control)
    assert found.termination == "cancelled"
    assert found.cost == gemma_problem().cost(found.state)[0]
    assert found.evaluations < 10**5


def test_a_budget_ends_the_search() -> None:
    found = PLANNERS["mcts"](gemma_problem(), SearchSettings(rollouts=10**7), Control(budget=1e-4))
    assert found.termination == "budget"
    assert found.cost <= 1.0


def test_a_rollout_count_is_kept() -> None:
    settings = SearchSettings(rollouts=150, round_rollouts=100)
    found = PLANNERS["mcts"](gemma_problem(), settings, Control())
    assert found.rollouts <= 150


def test_progress_only_gets_better() -> None:
    seen: list[Progress] = []
    PLANNERS["mcts"](gemma_problem(), SMALL, Control(on_progress=seen.append))
    costs = [progress.best_cost for progress in seen]
    assert costs == sorted(costs, reverse=True)
    rollouts = [progress.rollouts for progress in seen]
    assert rollouts == sorted(rollouts)
    assert all(0 <= progress.fraction <= 1 for progress in seen)


def test_local_search_drops_what_buys_nothing() -> None:
    problem = problem_of(text("mlp"), "a=2,b=2")
    batch = argument_group(problem.evaluator.analysis, 0, 0)
    state = (Action(group=batch, axis=0), Action(group=batch, axis=0))
    cost, _ = problem.cost(state)
    polished = local_search(problem, state, cost, Control())
    assert len(set(polished.state)) == len(polished.state)
    assert polished.cost <= cost


def test_actions_that_change_no_price_are_left_out() -> None:
    problem = gemma_problem()
    initial = problem.evaluator.cost(())
    for action in problem.actions:
        cost = problem.evaluator.cost((action,))
        assert (cost.seconds, cost.peak) != (initial.seconds, initial.peak)


def test_the_pruning_threshold_falls_with_the_program() -> None:
    assert prune_threshold(problem_of(text("mlp"), "a=2").evaluator.analysis) == 2
    assert prune_threshold(gemma_problem().evaluator.analysis) == 10


def test_each_set_group_doubles_the_resolutions_of_its_colour() -> None:
    problem = problem_of(text("attention"), "a=2")
    group = argument_group(problem.evaluator.analysis, 0, 0)
    bits = sorted(action.bits for action in problem.actions if action.group == group)
    assert bits == [0, 1]
    assert MAX_FREE_BITS >= 1


def test_priors_favour_what_helps_and_starve_nothing() -> None:
    problem = gemma_problem()
    weights = priors(problem, 0.15, Control())
    costs = [problem.cost((action,))[0] for action in problem.actions]
    best = costs.index(min(costs))
    assert weights[:-1].argmax() == best or costs[int(weights[:-1].argmax())] == min(costs)
    assert weights[:-1].min() >= 0.5 / len(costs) * (1 - 1e-12)
    assert weights[:-1].sum() == pytest.approx(1.0)


def test_the_depth_is_bounded() -> None:
    settings = SearchSettings(rollouts=300, round_rollouts=100, depth=2)
    found = PLANNERS["mcts"](gemma_problem(), settings, Control())
    assert found.rollouts > 0
    assert MAX_DEPTH > 30
