"""Local improvement of a finished state: drop, replace, move or add single actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.evaluator import State
from search.problem import Problem
from search.progress import Control

MAX_EVALUATIONS = 6_000
"""States that one polish may price; a long state of a large program has more neighbours."""
MIN_GAIN = 1e-4
"""A change must lower C(s) by this part; an action that buys less is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polished:
    """The state after polishing, its C(s), and how many states were priced."""

    state: State
    cost: float
    evaluations: int


def polish(problem: Problem, state: State, cost: float, control: Control) -> Polished:
    """Take the first single change that lowers C(s), again and again, until none does.

    An action that buys nothing is dropped, so that every decision of a plan pays.
    """
    evaluations, improved = 0, True
    while improved:
        improved = False
        for neighbour in _neighbours(problem, state):
            if control.stop_reason() is not None or evaluations >= MAX_EVALUATIONS:
                return Polished(state=state, cost=cost, evaluations=evaluations)
            priced, _ = problem.cost(neighbour)
            evaluations += 1
            shorter = len(neighbour) < len(state)
            if priced < cost * (1 + MIN_GAIN if shorter else 1 - MIN_GAIN):
                state, cost, improved = neighbour, priced, True
                break
    return Polished(state=state, cost=cost, evaluations=evaluations)


def _neighbours(problem: Problem, state: State) -> Iterator[State]:
    for index in range(len(state)):
        yield state[:index] + state[index + 1 :]
    for index in range(len(state)):
        for target in range(len(state)):
            if target != index:
                rest = [*state[:index], *state[index + 1 :]]
                rest.insert(target, state[index])
                yield tuple(rest)
    taken = set(state)
    for index in range(len(state)):
        for action in problem.actions:
            if action not in taken:
                yield (*state[:index], action, *state[index + 1 :])
    for action in problem.actions:
        if action not in taken:
            yield (*state, action)
            yield (action, *state)
