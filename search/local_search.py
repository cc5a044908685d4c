"""Local improvement of a finished state by changes at one site; see `neighbours`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from toast.costmodel.evaluator import State
from toast.search.neighbours import ChangeSite, Space
from toast.search.problem import CHUNK, Problem
from toast.search.progress import Control

MAX_EVALUATIONS = 20_000
"""States that one local search may price; a long state of a large program has more neighbours."""
FIRST_CHUNK = 8
MIN_GAIN = 1e-4
"""An action must lower C(s) by this part; one that buys less is dropped."""
LEAST = 1e-6
"""A change must better a state by this part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptimum:
    """The state after the local search, its C(s), and how many states were priced."""

    state: State
    cost: float
    evaluations: int


def local_search(
    problem: Problem,
    state: State,
    cost: float,
    control: Control,
    threads: int = 1,
    most: int = MAX_EVALUATIONS,
) -> LocalOptimum:
    """Take each change of one site that lowers C(s), over and over, until none does.

    An action that gains nothing is dropped, so that every decision of a plan pays. At most about
    `most` states are priced.
    """
    space = Space(problem)
    return descend(problem, space, space.sites(), state, cost, control, threads, most)


def descend(
    problem: Problem,
    space: Space,
    sites: Sequence[ChangeSite],
    state: State,
    cost: float,
    control: Control,
    threads: int,
    most: int,
) -> LocalOptimum:
    """The same at some sites: the best change of each in turn, if it pays.

    After a change the sites near it are looked at again, once the others had their turn. States are
    priced by chunks. Chunks after a change are small, because the rest of a chunk in which a change
    pays was priced for nothing.
    """
    evaluations, size, pending = 0, FIRST_CHUNK, dict.fromkeys(range(len(sites)))
    while pending and control.stop_reason() is None and evaluations < most:
        chunk = _chunk(state, sites, pending, size, most - evaluations)
        states = [each for neighbours in chunk.values() for each in neighbours]
        costs = iter([value for value, _ in problem.costs(states, threads)])
        evaluations += len(states)
        size = min(2 * size, CHUNK)
        for site, neighbours in chunk.items():
            del pending[site]
            rows = zip(neighbours, islice(costs, len(neighbours)), strict=True)
            best = min(rows, key=worth, default=(state, cost))
            if worth(best) < worth((state, cost)) * (1 - LEAST):
                changed = {action.group for action in set(best[0]) ^ set(state)}
                near = space.near(changed.union(sites[site].groups))
                pending |= dict.fromkeys(touched_sites(sites, near))
                (state, cost), size = best, FIRST_CHUNK
                break
    return LocalOptimum(state=state, cost=cost, evaluations=evaluations)


def touched_sites(sites: Sequence[ChangeSite], groups: set[int]) -> list[int]:
    """The numbers of the sites at which some of the groups are."""
    return [
        number
        for number, site in enumerate(sites)
        if not site.groups or not groups.isdisjoint(site.groups)
    ]


def worth(priced: tuple[State, float]) -> float:
    """What is minimised: C(s), and a little for each action, so that each has to pay."""
    return priced[1] * (1 + MIN_GAIN) ** len(priced[0])


def _chunk(
    state: State, sites: Sequence[ChangeSite], pending: Iterable[int], size: int, most: int
) -> dict[int, list[State]]:
    """The neighbours of a state at the pending sites: about `size` states, never above `most`."""
    chunk, count = dict[int, list[State]](), 0
    for number in pending:
        chunk[number] = sites[number].changes(state)[: most - count]
        count += len(chunk[number])
        if count >= min(size, most):
            break
    return chunk
