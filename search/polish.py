"""Local improvement of a finished state by changes of one place; see `neighbours`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from costmodel.evaluator import State
from search.neighbours import Place, Space
from search.problem import CHUNK, Problem
from search.progress import Control

MAX_EVALUATIONS = 20_000
"""States that one polish may price; a long state of a large program has more neighbours."""
FIRST_CHUNK = 8
MIN_GAIN = 1e-4
"""An action must lower C(s) by this part; one that buys less is dropped."""
LEAST = 1e-6
"""A change must better a state by this part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polished:
    """The state after polishing, its C(s), and how many states were priced."""

    state: State
    cost: float
    evaluations: int


def polish(
    problem: Problem,
    state: State,
    cost: float,
    control: Control,
    threads: int = 1,
    most: int = MAX_EVALUATIONS,
) -> Polished:
    """Take each change of one place that lowers C(s), over and over, until none does.

    An action that buys nothing is dropped, so that every decision of a plan pays. At most about
    `most` states are priced.
    """
    return descend(problem, Space(problem).places(), state, cost, control, threads, most)


def descend(
    problem: Problem,
    around: Sequence[Place],
    state: State,
    cost: float,
    control: Control,
    threads: int,
    most: int,
) -> Polished:
    """The same at some places: the best change of each in turn, if it pays.

    After a change the places go on from where they had got to: what was tried a moment ago is the
    last to pay now. States are priced by chunks, small ones after a change, as what follows the
    next change in a chunk is priced for nothing.
    """
    evaluations, at, idle, size = 0, 0, 0, FIRST_CHUNK
    while idle < len(around) and control.stop_reason() is None and evaluations < most:
        chunk = _chunk(state, around, at, len(around) - idle, min(size, most - evaluations))
        states = [each for neighbours in chunk for each in neighbours]
        costs = iter([value for value, _ in problem.costs(states, threads)])
        evaluations += len(states)
        size = min(2 * size, CHUNK)
        for neighbours in chunk:
            at, idle = (at + 1) % len(around), idle + 1
            rows = zip(neighbours, islice(costs, len(neighbours)), strict=True)
            best = min(rows, key=worth, default=(state, cost))
            if worth(best) < worth((state, cost)) * (1 - LEAST):
                (state, cost), idle, size = best, 0, FIRST_CHUNK
                break
    return Polished(state=state, cost=cost, evaluations=evaluations)


def worth(priced: tuple[State, float]) -> float:
    """What is made lower: C(s), dearer for each action so that each has to pay."""
    return priced[1] * (1 + MIN_GAIN) ** len(priced[0])


def _chunk(state: State, around: Sequence[Place], at: int, most: int, size: int) -> list[list[State]]:
    """What is around a state from one place on, up to so many places or so many states."""
    chunk, count = list[list[State]](), 0
    for offset in range(most):
        neighbours = around[(at + offset) % len(around)](state)
        chunk.append(neighbours)
        count += len(neighbours)
        if count >= size:
            break
    return chunk
