"""Conflicts and their compatibility sets (TOAST sections 3.3 to 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from analysis.names import Colours
from analysis.program import Ints, Program
from analysis.reach import Reach
from analysis.unionfind import SidedSets


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two names of one colour on one definition or use; `names` are ordered by dimension."""

    names: tuple[int, int]
    colour: int
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """All conflicts of a program in program order, and their compatibility sets.

    `set_of[i]` is the set of conflict i; resolution 0 of a set shards the first name of conflict
    i where `side[i]` is 0, its second where it is 1. `sets` counts the sets.
    """

    all: tuple[Conflict, ...]
    set_of: Ints
    side: Ints
    sets: int


Box = tuple[int, int, bool]
"""Two conflicts (by number) that form a box, and whether the edges run crosswise."""


def find_conflicts(program: Program, colours: Colours) -> Conflicts:
    """Find conflicts, join those that form a box with no path across."""
    found = _conflicts(program, colours)
    number = {conflict.names: i for i, conflict in enumerate(found)}
    sides = SidedSets(range(len(found)))
    reach = Reach(program, colours)
    for left, right, crosswise in _boxes(program, number):
        if reach.compatible(found[left].names, found[right].names, crosswise):
            sides.join(left, right, opposite=crosswise)
    roots = [sides.find(i) for i in range(len(found))]
    index = {root: i for i, root in enumerate(dict.fromkeys(root for root, _ in roots))}
    return Conflicts(
        all=tuple(found),
        set_of=np.array([index[root] for root, _ in roots], dtype=np.int64),
        side=np.array([side for _, side in roots], dtype=np.int64),
        sets=len(index),
    )


def clashing(names: Ints, colours: Colours) -> list[tuple[int, int]]:
    """Pairs of names of one colour among the names of one tensor, in order of dimension."""
    named = zip(names.tolist(), colours.colour[names].tolist(), strict=True)
    coloured = [(name, kind) for name, kind in named if name >= 0 and kind >= 0]
    return [(one, other) for (one, a), (other, b) in combinations(coloured, 2) if a == b]


def _conflicts(program: Program, colours: Colours) -> list[Conflict]:
    found: dict[tuple[int, int], Conflict] = {}
    used = _doubled(program.use_dims, program.use_name, colours)
    made = _doubled(program.value_dims, program.dim_name, colours)
    tensors = [(program.users[use], 0, use) for use in used]
    tensors += [(program.makers[value], 1, value) for value in made]
    for op, is_made, number in sorted(tensors):
        names = program.def_names(number) if is_made else program.use_names(number)
        for pair in clashing(names, colours):
            if pair not in found and pair[::-1] not in found:
                colour = int(colours.colour[pair[0]])
                found[pair] = Conflict(names=pair, colour=colour, op=op)
    return list(found.values())


def _doubled(starts: Ints, names: Ints, colours: Colours) -> list[int]:
    """The tensors, by number, that have two dimensions of one colour."""
    kinds = colours.colour[names]
    tensor = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    coloured = (names >= 0) & (kinds >= 0)
    keys = np.sort((tensor * (colours.count + 1) + kinds)[coloured])
    twice: list[int] = np.unique(keys[1:][np.diff(keys) == 0] // (colours.count + 1)).tolist()
    return twice


def _boxes(program: Program, number: dict[tuple[int, int], int]) -> list[Box]:
    """Boxes along M (a definition and a use of it) and along loop and branch links."""
    found = []
    by_value: dict[int, list[tuple[int, int, int, int]]] = {}
    for pair_value, dims in _definition_pairs(program, number):
        by_value.setdefault(pair_value, []).append(dims)
    for use in np.flatnonzero(np.isin(program.use_value, list(by_value))).tolist():
        value = program.sources[use]
        for first, second, i, j in by_value[value]:
            names = program.use_names(use)
            box = _box(number, (first, second), (int(names[i]), int(names[j])))
            if box is not None and not program.constant[value]:
                found.append(box)
    return found + _linked_boxes(program, number)


def _definition_pairs(
    program: Program, number: dict[tuple[int, int], int]
) -> list[tuple[int, tuple[int, int, int, int]]]:
    in_conflict = {name for pair in number for name in pair}
    value_of = np.repeat(np.arange(program.values), np.diff(program.value_dims))
    holding = value_of[np.isin(program.dim_name, list(in_conflict))]
    found = []
    for value in np.unique(holding).tolist():
        names = program.def_names(value).tolist()
        dims = [d for d, name in enumerate(names) if name in in_conflict]
        for i, j in combinations(dims, 2):
            if _lookup(number, (names[i], names[j])) is not None:
                found.append((value, (names[i], names[j], i, j)))
    return found


def _linked_boxes(program: Program, number: dict[tuple[int, int], int]) -> list[Box]:
    target: dict[int, list[int]] = {}
    for left, right in program.links.tolist():
        target.setdefault(left, []).append(right)
    found = []
    for first, second in list(number):
        for pair in zip(target.get(first, ()), target.get(second, ()), strict=False):
            box = _box(number, (first, second), pair)
            if box is not None:
                found.append(box)
    return found


def _box(
    number: dict[tuple[int, int], int], first: tuple[int, int], second: tuple[int, int]
) -> Box | None:
    left, right = _lookup(number, first), _lookup(number, second)
    if left is None or right is None or left[0] == right[0]:
        return None
    return left[0], right[0], left[1] != right[1]


def _lookup(number: dict[tuple[int, int], int], pair: tuple[int, int]) -> tuple[int, bool] | None:
    """The conflict between two names, and whether it holds them in the other order."""
    if pair in number:
        return number[pair], False
    if pair[::-1] in number:
        return number[pair[::-1]], True
    return None
