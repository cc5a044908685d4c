"""The front of time against memory: exact for what was noted, thin where it is told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.problems import fresh, gemma_problem
from toast.costmodel.evaluator import Action
from toast.search.choices import choices
from toast.search.infeasible import closest_to_fitting, for_the_peak
from toast.search.local_search import local_search
from toast.search.mcts import search
from toast.search.pareto import ParetoFront, Point, new_buckets, thinned
from toast.search.peak_buckets import bucket_of, keep
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control

NEAR = 0.005
MOST = 10
NEGLIGIBLE = 0.001
BUCKETS = 768

ACTIONS = tuple(Action(group=group, axis=0) for group in range(5))
PRICES = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.lists(st.integers(0, 4), max_size=4)),
    min_size=1,
    max_size=60,
)


def front_of(prices: list[tuple[int, int, list[int]]]) -> ParetoFront:
    front = ParetoFront()
    for seconds, peak, path in prices:
        front.note(seconds, peak, [ACTIONS[number] for number in path])
    return front


@given(PRICES)
def test_no_state_that_was_noted_beats_one_of_the_front(
    prices: list[tuple[int, int, list[int]]],
) -> None:
    for point in front_of(prices).points():
        assert (point.seconds, point.peak) in {(s, p) for s, p, _ in prices}
        for seconds, peak, _ in prices:
            assert seconds >= point.seconds or peak > point.peak
            assert seconds > point.seconds or peak >= point.peak


@given(PRICES)
def test_the_fastest_state_is_on_the_front_and_it_rises_and_falls(
    prices: list[tuple[int, int, list[int]]],
) -> None:
    points = front_of(prices).points()
    assert points[-1].seconds == min(seconds for seconds, _, _ in prices)
    for low, high in itertools.pairwise(points):
        assert low.peak < high.peak
        assert low.seconds > high.seconds


@given(PRICES, st.integers(0, 60))
def test_threads_that_are_merged_keep_what_one_would(
    prices: list[tuple[int, int, list[int]]], cut: int
) -> None:
    merged = ParetoFront()
    for part in (prices[:cut], prices[cut:]):
        buckets = new_buckets(4)
        for seconds, peak, path in part:
            keep(buckets, float(seconds), float(peak), np.array([*path, 0]), len(path))
        merged.merge(buckets, ACTIONS)
    alone = front_of(prices).points()
    assert [(p.seconds, p.peak) for p in merged.points()] == [(p.seconds, p.peak) for p in alone]


def test_buckets_are_a_sixteenth_of_a_doubling_and_end_somewhere() -> None:
    assert bucket_of(0.0) == 0
    assert bucket_of(2.0**40) == 640
    assert bucket_of(2.0**40 * 2 ** (1 / 16) * 1.001) == 641
    assert bucket_of(1e30) == BUCKETS - 1


@given(PRICES, st.integers(0, 59), st.integers(2, MOST))
def test_a_thinned_front_has_the_chosen_one_and_no_more_than_it_may(
    prices: list[tuple[int, int, list[int]]], which: int, most: int
) -> None:
    points = front_of(prices).points()
    chosen = points[which % len(points)]
    kept = thinned(points, chosen, most)
    assert len(kept) <= max(most, 3)
    assert sum(point is chosen for point in kept) == 1
    for low, high in itertools.pairwise(kept):
        assert low.peak < high.peak
        assert low.seconds > high.seconds


def test_thinning_takes_from_where_points_are_dense() -> None:
    peaks = [1.0, 1.1, 1.2, 1.3, 2.0, 4.0, 8.0]
    points = [Point(seconds=1 / peak, peak=peak, state=()) for peak in peaks]
    kept = thinned(points, points[4], 5)
    assert [point.peak for point in kept][-4:] == [1.3, 2.0, 4.0, 8.0] or len(kept) == 5
    assert {1.0, 2.0, 4.0, 8.0} <= {point.peak for point in kept}


def test_bytes_that_buy_nothing_are_no_choice() -> None:
    chosen = Point(seconds=1.0, peak=100.0, state=())
    alike = Point(seconds=1.0 - NEGLIGIBLE / 2, peak=200.0, state=())
    worth = Point(seconds=1.0 - NEGLIGIBLE * 2, peak=300.0, state=())
    assert thinned([chosen, alike, worth], chosen) == [chosen, worth]


def test_every_planner_leaves_a_front_of_states_that_it_priced() -> None:
    for name, planner in PLANNERS.items():
        problem = fresh(gemma_problem())
        found = planner(
            problem, SearchSettings(rollouts=300, round_rollouts=100, ilp_seconds=1), Control()
        )
        points = problem.front.points()
        seconds = problem.evaluator.cost(found.state).seconds
        assert points[-1].seconds <= seconds * (1 + 1e-9), name
        for point in points:
            cost = problem.evaluator.cost(point.state)
            assert (cost.seconds, cost.peak) == (point.seconds, point.peak), name


def test_what_threads_of_the_tree_search_price_is_on_the_front() -> None:
    problem = fresh(gemma_problem())
    search(problem, SearchSettings(rollouts=500, round_rollouts=500, threads=2), Control())
    assert any(len(point.state) > 2 for point in problem.front.points())


def searched(problem: Problem) -> Found:
    return search(problem, SearchSettings(rollouts=600, round_rollouts=200), Control())


def test_choices_are_a_front_with_the_found_state_on_it() -> None:
    problem = fresh(gemma_problem())
    first = searched(problem)
    found, points = choices(problem, first, Control())
    assert 1 < len(points) <= MOST
    assert found.cost <= first.cost
    assert [point.state for point in points].count(found.state) == 1
    for low, high in itertools.pairwise(points):
        assert low.peak < high.peak
        assert low.seconds > high.seconds
    for point in points:
        cost = problem.evaluator.cost(point.state)
        assert (cost.seconds, cost.peak) == (point.seconds, point.peak)


def test_the_front_costs_a_tenth_of_the_search() -> None:
    problem = fresh(gemma_problem())
    first = searched(problem)
    found, _ = choices(problem, first, Control())
    assert first.evaluations < found.evaluations <= first.evaluations * 1.1


def test_a_better_state_of_the_front_is_taken() -> None:
    problem = fresh(gemma_problem())
    better = searched(problem)
    poor = Found.after((), problem.cost(())[0], 1, "converged")
    found, points = choices(problem, poor, Control())
    assert found.cost <= better.cost * (1 + 1e-3)
    assert found.cost == problem.cost(found.state)[0]
    assert any(point.state == found.state for point in points)


def test_where_nothing_fits_one_that_comes_closer_is_better() -> None:
    problem = fresh(gemma_problem(memory=1000.0))
    first = closest_to_fitting(problem, searched(problem), Control())
    found, points = choices(problem, first, Control())
    peak = problem.evaluator.cost(found.state).peak
    assert peak <= problem.evaluator.cost(first.state).peak * (1 + NEAR)
    assert peak <= min(point.peak for point in points) * 1.05


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_of_states_as_close_to_fitting_the_fastest_is_best(share: float) -> None:
    problem = fresh(gemma_problem(memory=share * gemma_problem().evaluator.cost(()).peak))
    found = searched(problem)
    strict = for_the_peak(problem)
    least = local_search(strict, found.state, strict.cost(found.state)[0], Control())
    small = problem.evaluator.cost(least.state)
    closest = closest_to_fitting(problem, found, Control())
    if closest is found:
        assert problem.evaluator.cost(found.state).peak <= problem.reward.memory
        return
    cost = problem.evaluator.cost(closest.state)
    assert cost.peak <= max(small.peak * (1 + NEAR), problem.reward.memory)
    assert cost.seconds < small.seconds
    assert closest.evaluations > found.evaluations


def test_choices_of_a_search_that_must_stop_are_those_it_priced() -> None:
    problem = fresh(gemma_problem())
    first = searched(problem)
    before = len(problem.front.points())
    found, points = choices(problem, first, Control(cancelled=lambda: True))
    assert found.evaluations == first.evaluations
    assert len(points) <= min(before + 1, MOST)
