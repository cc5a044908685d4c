"""Local improvement of a finished state: drop, replace, move or add single actions."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.evaluator import State
from search.problem import CHUNK, Problem
from search.progress import Control
from search.tree import MAX_DEPTH

MAX_EVALUATIONS = 20_000
"""States that one polish may price; a long state of a large program has more neighbours."""
FIRST_CHUNK = 8
MIN_GAIN = 1e-4
"""A change must lower C(s) by this part; an action that buys less is dropped."""


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
    """Take each single change that lowers C(s), over and over, until none does.

    An action that buys nothing is dropped, so that every decision of a plan pays. After a change
    the neighbours of the new state are tried from where those of the old one had got to: what was
    tried a moment ago is the last to pay now. They are priced by chunks, small ones after a change,
    as what follows the next change in a chunk is priced for nothing. At most `most` are priced.
    """
    evaluations, place, idle, size = 0, 0, 0, FIRST_CHUNK
    neighbours = _neighbours(problem, state)
    while idle < len(neighbours):
        if control.stop_reason() is not None or evaluations >= most:
            break
        count = min(size, len(neighbours) - idle, most - evaluations)
        around = range(place, place + count)
        chunk = [neighbours[each % len(neighbours)] for each in around]
        priced = problem.costs(chunk, threads)
        evaluations += len(chunk)
        size = min(2 * size, CHUNK)
        for neighbour, (value, _) in zip(chunk, priced, strict=True):
            place, idle = place + 1, idle + 1
            shorter = len(neighbour) < len(state)
            if value < cost * (1 + MIN_GAIN if shorter else 1 - MIN_GAIN):
                state, cost, idle, size = neighbour, value, 0, FIRST_CHUNK
                neighbours = _neighbours(problem, state)
                break
    return Polished(state=state, cost=cost, evaluations=evaluations)


def _neighbours(problem: Problem, state: State) -> list[State]:
    """States one change away: an action dropped, moved, replaced or added."""
    around = range(len(state))
    fresh = [action for action in problem.actions if action not in set(state)]
    dropped = [state[:index] + state[index + 1 :] for index in around]
    moved = [
        (*rest[:target], state[index], *rest[target:])
        for index, rest in enumerate(dropped)
        for target in around
        if target != index
    ]
    replaced = [
        (*state[:index], action, *state[index + 1 :]) for index in around for action in fresh
    ]
    room = fresh if len(state) < MAX_DEPTH else []
    added = [grown for action in room for grown in ((*state, action), (action, *state))]
    return [*dropped, *moved, *replaced, *added]
