"""Repeated layers: colours and compatibility sets that are acted on together.

TOAST sections 3.6 and 4.4. Two colours are in one group when they touch the same ops in the same
way and equally often, whichever layer these are in. An action acts on all colours of a group.
Colours that meet in one op are never in one group: sharding both over one axis would make them
compete.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from toast.analysis.conflicts import Conflicts
from toast.analysis.names import Colours
from toast.analysis.program import ARGUMENT, TRANSFERS, Ints, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """`of_colour[c]` is the colour group of colour c; `of_set[k]` the set group of set k.

    `set_colour[g]` is the colour group that set group g belongs to.
    """

    of_colour: Ints
    colours: int
    of_set: Ints
    sets: int
    set_colour: Ints


def group_repeats(program: Program, colours: Colours, conflicts: Conflicts) -> Groups:
    """Group isomorphic colours, then isomorphic sets of the colours of a group."""
    keys = _colour_keys(program, colours)
    of_colour = _numbered(keys)
    of_colour = _split_meeting(program, colours, of_colour)
    of_set, set_colour = _group_sets(program, conflicts, of_colour)
    return Groups(
        of_colour=of_colour,
        colours=int(of_colour.max(initial=-1)) + 1,
        of_set=of_set,
        sets=len(set_colour),
        set_colour=set_colour,
    )


def factor_ops(program: Program) -> Ints:
    """The op of each factor."""
    counts = program.op_factors[1:] - program.op_factors[:-1]
    return np.repeat(np.arange(program.ops), counts)


def _in(program: Program, kinds: frozenset[str]) -> NDArray[np.bool_]:
    """For each factor whether its op is of one of `kinds`."""
    named = np.array([name in kinds for name in program.names], dtype=np.bool_)
    return np.repeat(named[program.op_name], np.diff(program.op_factors))


def _places(program: Program) -> Ints:
    """For each factor a number that is equal for equal places: op signature and factor index."""
    op = factor_ops(program)
    index = np.arange(len(op)) - program.op_factors[op]
    return program.op_signature[op] * 64 + np.minimum(index, 63)


def _colour_keys(program: Program, colours: Colours) -> list[Hashable]:
    """What a colour touches; where a tensor stands in a transfer says nothing about it."""
    places = _places(program)
    moved = _in(program, TRANSFERS - {ARGUMENT})
    used = np.flatnonzero((colours.colour >= 0) & ~moved)
    order = used[np.lexsort((places[used], colours.colour[used]))]
    bounds = np.searchsorted(colours.colour[order], np.arange(colours.count + 1))
    sorted_places = places[order]
    return [sorted_places[bounds[c] : bounds[c + 1]].tobytes() for c in range(colours.count)]


def _numbered(keys: list[Hashable]) -> Ints:
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def _split_meeting(program: Program, colours: Colours, group: Ints) -> Ints:
    used = (colours.colour >= 0) & ~_in(program, TRANSFERS)
    op, colour = factor_ops(program)[used], colours.colour[used]
    grouped = group[colour]
    meeting = set[int]()
    for apart in range(1, int(np.bincount(op).max(initial=1))):
        here, there = slice(None, -apart), slice(apart, None)
        met = (op[here] == op[there]) & (grouped[here] == grouped[there])
        meeting.update(grouped[here][met & (colour[here] != colour[there])].tolist())
    keys: list[Hashable] = [
        (int(g), colour if g in meeting else -1) for colour, g in enumerate(group.tolist())
    ]
    return _numbered(keys)


def _group_sets(program: Program, conflicts: Conflicts, of_colour: Ints) -> tuple[Ints, Ints]:
    places = _places(program)
    first, second = places[conflicts.names].T
    members = np.stack([conflicts.set_of, first, second, conflicts.side], axis=1)
    members = members[np.lexsort(members.T[::-1])]
    bounds = np.searchsorted(members[:, 0], np.arange(conflicts.sets + 1)).tolist()
    colour_of = np.zeros(conflicts.sets, dtype=np.int64)
    colour_of[conflicts.set_of] = of_colour[[conflict.colour for conflict in conflicts.all]]
    keys: list[Hashable] = [
        (colour, members[a:b, 1:].tobytes())
        for colour, (a, b) in zip(colour_of.tolist(), pairwise(bounds), strict=True)
    ]
    of_set = _numbered(keys)
    set_colour = np.zeros(int(of_set.max(initial=-1)) + 1, dtype=np.int64)
    set_colour[of_set] = colour_of
    return of_set, set_colour
