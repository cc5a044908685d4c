"""Out of a state that no single change improves: a perturbation, and the changes that follow.

Some decisions pay only after others were changed too: the nodes of a graph are split, and then
whatever meets them. So a group, or all that are symmetric, is laid over all axes or none although
it costs, the groups that it meets are changed as long as that pays, and the outcome is kept if it
is better.
"""

from __future__ import annotations

from collections.abc import Iterator

from toast.costmodel.evaluator import State
from toast.search.local_search import LEAST, LocalOptimum, descend, local_search, worth
from toast.search.neighbours import Space, over
from toast.search.problem import Problem
from toast.search.progress import Control

MAX_EVALUATIONS = 5_000
"""About as many states may be priced; units that meet most groups come first."""


def perturbed(
    problem: Problem,
    state: State,
    cost: float,
    control: Control,
    threads: int = 1,
    most: int = MAX_EVALUATIONS,
) -> LocalOptimum:
    """The state that is left when no perturbation pays any more, or after about `most` prices."""
    space = Space(problem)
    units = perturbation_units(space)
    evaluations, at, idle = 0, 0, 0
    while idle < len(units) and evaluations < most and control.stop_reason() is None:
        unit = units[at]
        at, idle = (at + 1) % len(units), idle + 1
        sites = space.sites_of(_met(space, unit))
        for starts in _starts(space, unit, state):
            costs = [value for value, _ in problem.costs(starts, threads)]
            start = min(zip(starts, costs, strict=True), key=worth)
            left = most - evaluations - len(starts)
            found = descend(problem, space, sites, *start, control, threads, max(0, left))
            evaluations += len(starts) + found.evaluations
            if worth((found.state, found.cost)) < worth((state, cost)) * (1 - LEAST):
                found = local_search(problem, found.state, found.cost, control, threads)
                evaluations += found.evaluations
                state, cost, idle = found.state, found.cost, 0
                break
    return LocalOptimum(state=state, cost=cost, evaluations=evaluations)


def perturbation_units(space: Space) -> list[tuple[int, ...]]:
    """Groups to perturb as one, first those that meet most others."""
    every = [*((group,) for group in space.bits), *space.symmetric]
    return sorted(every, key=lambda unit: -len(_met(space, unit)))


def _met(space: Space, unit: tuple[int, ...]) -> list[int]:
    """The groups that a unit meets."""
    return sorted(space.near(unit).difference(unit))


def _starts(space: Space, unit: tuple[int, ...], state: State) -> Iterator[list[State]]:
    """The state with a unit over all axes, and with it over none."""
    bits = {group: space.bits[group][0] for group in unit}
    for axes in (set(space.axes), set[int]()):
        starts = [start for start in dict.fromkeys(over(state, bits, axes)) if start != state]
        if starts:
            yield starts
