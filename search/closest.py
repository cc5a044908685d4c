"""When nothing fits: the plan that comes closest, rather than the best compromise."""

from __future__ import annotations

from dataclasses import replace

from search.polish import polish
from search.problem import Found, Problem
from search.progress import Control

PENALTY = 1e6
"""With this C any byte above the memory weighs more than any time."""


def for_the_peak(problem: Problem) -> Problem:
    """The problem of least bytes above the memory."""
    return replace(problem, reward=replace(problem.reward, penalty=PENALTY))


def closest_to_fitting(problem: Problem, found: Found, control: Control, threads: int = 1) -> Found:
    """A state that is above the memory, polished for its peak alone; others are kept as they are.

    The reward of TOAST section 4.5 trades time for bytes above the memory, so its best state may be
    one that a slower one would undercut.
    """
    _, cost = problem.cost(found.state)
    if cost.peak <= problem.reward.memory:
        return found
    strict = for_the_peak(problem)
    start, _ = strict.cost(found.state)
    better = polish(strict, found.state, start, control, threads=threads)
    value, _ = problem.cost(better.state)
    return replace(
        found,
        state=better.state,
        cost=value,
        evaluations=found.evaluations + better.evaluations + 3,
    )
