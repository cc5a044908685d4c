"""A start for the search from symmetric groups, each class of them moved as one.

Layers of a network that are not exact repeats have colour groups of their own. What is best for one
of them is often best for all, but not for one alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from toast.costmodel.evaluator import Action, State
from toast.search.beam import beam_over
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control


def symmetric_start(problem: Problem, settings: SearchSettings, control: Control) -> Found:
    """Beam search over moves of whole classes."""
    return beam_over(moves(problem), problem, settings, control)


def moves(problem: Problem) -> list[State]:
    """The moves of all classes; a group that no other one equals is moved by itself."""
    number = {group: n for n, groups in enumerate(symmetry_classes(problem)) for group in groups}
    found: defaultdict[tuple[int, int, int], list[Action]] = defaultdict(list)
    for action in problem.actions:
        found[number[action.group], action.axis, action.bits].append(action)
    return list(map(tuple, found.values()))


def over_all_axes(single: Sequence[State]) -> list[State]:
    """Moves over one axis, joined to moves over all axes at once: those of a mesh of one axis."""
    joined: defaultdict[frozenset[tuple[int, int]], list[Action]] = defaultdict(list)
    for move in single:
        joined[frozenset((action.group, action.bits) for action in move)] += move
    return list(map(tuple, joined.values()))


def symmetry_classes(problem: Problem) -> list[tuple[int, ...]]:
    """The colour groups of the actions, symmetric ones together."""
    kinds = _shapes(problem)
    found: defaultdict[frozenset[tuple[int, ...]], dict[int, None]] = defaultdict(dict)
    for action in problem.actions:
        found[kinds[action.group]][action.group] = None
    return list(map(tuple, found.values()))


def _shapes(problem: Problem) -> dict[int, frozenset[tuple[int, ...]]]:
    """For each colour group where its dimensions are: at which position of how many, and the size.

    Groups with equal rows are symmetric.
    """
    t = problem.evaluator.tables
    found: defaultdict[int, set[tuple[int, ...]]] = defaultdict(set)
    starts = t.units.start.tolist()
    for first, end in pairwise(starts):
        for item in range(first, end):
            place = (end - first, item - first, int(t.units.item_size[item]))
            found[int(t.units.item_group[item])].add(place)
    return {group: frozenset(places) for group, places in found.items()}
