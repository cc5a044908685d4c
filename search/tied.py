"""A start for the search from groups that are alike, each class of them moved as one.

The layers of a network that are not repeated to the letter have colour groups of their own, and
what is best for one of them is often best for all, but not for one alone.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from costmodel.evaluator import Action, State
from search.problem import Found, Problem, Settings
from search.progress import Control

Move = tuple[Action, ...]
"""The actions of all groups of a class on one axis, with resolutions that are alike."""


def tied(problem: Problem, settings: Settings, control: Control) -> Found:
    """Beam search over moves of whole classes."""
    cost, measured = problem.cost(())
    found: State = ()
    level: list[tuple[float, State]] = [(cost, ())]
    seen, evaluations = {measured.key}, 1
    choices = moves(problem)
    while level and choices:
        grown: list[tuple[float, State]] = []
        for _, state in level:
            for move in choices:
                if control.stop_reason() is not None or evaluations >= settings.rollouts:
                    return _found(found, cost, evaluations)
                longer = (*state, *(action for action in move if action not in state))
                if len(longer) > settings.depth:
                    continue
                priced, measured = problem.cost(longer)
                evaluations += 1
                if measured.key not in seen:
                    seen.add(measured.key)
                    grown.append((priced, longer))
        level = sorted(grown, key=lambda pair: pair[0])[: settings.beam_width]
        if not level or level[0][0] >= cost:
            break
        cost, found = level[0]
    return _found(found, cost, evaluations)


def moves(problem: Problem) -> list[Move]:
    """The moves of all classes; a group that is like no other is moved by itself."""
    alike: defaultdict[tuple[object, int, int], list[Action]] = defaultdict(list)
    shapes = _shapes(problem)
    for action in problem.actions:
        alike[shapes[action.group], action.axis, action.bits].append(action)
    return list(map(tuple, alike.values()))


def _shapes(problem: Problem) -> dict[int, frozenset[tuple[int, ...]]]:
    """For each colour group where its dimensions stand: in which place of how many, and the size.

    Groups of equal ones are alike.
    """
    t = problem.evaluator.tables
    found: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
    starts = t.unit_start.tolist()
    for first, end in pairwise(starts):
        for item in range(first, end):
            place = (end - first, item - first, int(t.item_size[item]))
            found[int(t.item_group[item])].add(place)
    return {group: frozenset(places) for group, places in found.items()}


def _found(state: State, cost: float, evaluations: int) -> Found:
    return Found(
        state=state,
        cost=cost,
        rollouts=evaluations,
        evaluations=evaluations,
        termination="converged",
    )
