"""Choices, not only an answer: the front of time against memory after a search.

The search has priced thousands of states on its way to one answer, and their front costs nothing
more. It is thin where the search did not look for the answer, so states of it are improved for
other limits of memory than the one of the request.
"""

from __future__ import annotations

import math
from dataclasses import replace

from toast.search.infeasible import PENALTY, as_close
from toast.search.local_search import MIN_GAIN, local_search
from toast.search.pareto import Point, thinned
from toast.search.problem import Found, Problem
from toast.search.progress import Control

SHARE = 0.1
"""States priced for the front, as a part of those that the search has priced."""
BETWEEN = 2
"""Limits between the peak of the fastest state and the smallest peak."""


def choices(
    problem: Problem, found: Found, control: Control, threads: int = 1
) -> tuple[Found, list[Point]]:
    """The states to choose from, by rising peak, and the found one, which is among them.

    If one of them is better than the answer of the search, it becomes the found one.
    """
    spent, allowed = 0, int(SHARE * found.evaluations)
    for number in range(BETWEEN + 2):
        part = (allowed - spent) // (BETWEEN + 2 - number)
        spent += _improve(problem, number, part, control, threads)
    points = problem.front.points()
    found = replace(_best(problem, found, points), evaluations=found.evaluations + spent)
    cost = problem.evaluator.cost(found.state)
    chosen = Point(seconds=cost.seconds, peak=cost.peak, state=found.state)
    return found, thinned(points, chosen)


def _best(problem: Problem, found: Found, points: list[Point]) -> Found:
    """The found state or a better one; where it does not fit, one that comes closer is better."""
    _, measured = problem.cost(found.state)
    reward = problem.reward
    if measured.peak > reward.memory:
        reward = as_close(reward, min(measured.peak, *(p.peak for p in points)))
    value, state = min((reward.value(p.seconds, p.peak), p.state) for p in points)
    if value >= reward.of(measured) * (1 - MIN_GAIN):
        return found
    return replace(found, state=state, cost=problem.cost(state)[0])


def _improve(problem: Problem, number: int, most: int, control: Control, threads: int) -> int:
    """Improve the fastest state within one limit; returns how many states that priced."""
    points = problem.front.points()
    small, large = math.log(max(points[0].peak, 1.0)), math.log(max(points[-1].peak, 1.0))
    between = math.exp(large - (large - small) * (number - 1) / (BETWEEN + 1))
    limit = (math.inf, 0.0)[number] if number < 2 else between
    start = max((p for p in points if p.peak <= limit), key=lambda p: p.peak, default=points[0])
    strict = replace(problem, reward=replace(problem.reward, memory=limit, penalty=PENALTY))
    cost, _ = strict.cost(start.state)
    return local_search(strict, start.state, cost, control, threads, most).evaluations
