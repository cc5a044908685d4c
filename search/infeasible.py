"""When nothing fits: the plan that comes closest, rather than the best compromise."""

from __future__ import annotations

from dataclasses import replace

from toast.costmodel.evaluator import Reward, State
from toast.search.local_search import LocalOptimum, local_search
from toast.search.problem import Found, Problem
from toast.search.progress import Control

PENALTY = 1e6
"""With this C any byte above the memory weighs more than any time."""
NEAR = 0.005
"""Peaks that differ by this part come equally close, and time decides between them."""


def closest_to_fitting(problem: Problem, found: Found, control: Control, threads: int = 1) -> Found:
    """The state that comes closest to fitting; a found state that fits is kept as it is.

    The reward of TOAST section 4.5 trades time for bytes above the memory, so its best state may
    need more than a slower one would. The local search therefore runs for the peak alone, and then
    for the time, with as much memory as `as_close` allows.
    """
    _, cost = problem.cost(found.state)
    if cost.peak <= problem.reward.memory:
        return found
    least = _improved(for_the_peak(problem), found.state, control, threads)
    peak = problem.evaluator.cost(least.state).peak
    near = replace(problem, reward=as_close(problem.reward, peak))
    fast = _improved(near, least.state, control, threads)
    value, _ = problem.cost(fast.state)
    priced = found.evaluations + least.evaluations + fast.evaluations + 5  # and five right here
    return replace(found, state=fast.state, cost=value, evaluations=priced)


def _improved(problem: Problem, state: State, control: Control, threads: int) -> LocalOptimum:
    start, _ = problem.cost(state)
    return local_search(problem, state, start, control, threads=threads)


def for_the_peak(problem: Problem) -> Problem:
    """The problem of least bytes above the memory."""
    return replace(problem, reward=as_close(problem.reward, 0.0))


def as_close(reward: Reward, peak: float) -> Reward:
    """The reward of least time among states that fit, or come as close to it as this peak."""
    return replace(reward, memory=max(reward.memory, peak * (1 + NEAR)), penalty=PENALTY)
