"""Conflicts and their compatibility sets (TOAST sections 3.3 to 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.names import Bools, Colours
from toast.analysis.program import Ints, Program
from toast.analysis.reach import Reach
from toast.analysis.unionfind import sided_components


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two names of one colour on one definition or use; `names` are ordered by dimension."""

    names: tuple[int, int]
    colour: int
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """All conflicts of a program in program order, and their compatibility sets.

    `names` [conflicts, 2] are those of `all`. `set_of[i]` is the set of conflict i; resolution 0 of
    a set shards the first name of conflict i where `side[i]` is 0, its second where it is 1. `sets`
    counts the sets.
    """

    all: tuple[Conflict, ...]
    names: Ints
    set_of: Ints
    side: Ints
    sets: int


Boxes = tuple[Ints, Bools]
"""Pairs of conflicts (by number) that form a box [n, 2], and whether the edges run crosswise."""


def find_conflicts(program: Program, colours: Colours, edges: Ints) -> Conflicts:
    """Find conflicts, join those that form a box with no path across.

    Paths run along the `edges` of the map M.
    """
    made = _clashes(program.value_dims, program.dim_name, colours)
    names, ops = _conflicts(program, colours, made)
    table = _Table(names, len(program.factor_size))
    found = (_boxes(program, table, made), _linked_boxes(program, table))
    boxes, crosswise = (np.concatenate(columns) for columns in zip(*found, strict=True))
    across = Reach(program, edges).across(names[boxes[:, 0]], names[boxes[:, 1]], crosswise)
    root, side, _ = sided_components(len(names), boxes[~across], crosswise[~across])
    sets, set_of = np.unique(root, return_inverse=True)
    of = (names.tolist(), colours.colour[names[:, 0]].tolist(), ops.tolist())
    return Conflicts(
        all=tuple(
            Conflict(names=(first, second), colour=colour, op=op)
            for (first, second), colour, op in zip(*of, strict=True)
        ),
        names=names,
        set_of=set_of.astype(np.int64),
        side=side,
        sets=len(sets),
    )


def _clashes(starts: Ints, names: Ints, colours: Colours) -> Ints:
    """Rows (tensor, two places of `names`): dimensions of one colour, in order."""
    kinds = np.where(names >= 0, colours.colour[names], -1)
    ranks = np.diff(starts)
    tensor = np.repeat(np.arange(len(ranks)), ranks)
    found = [np.zeros((0, 3), dtype=np.int64)]
    for apart in range(1, int(ranks.max(initial=1))):
        here, there = slice(None, -apart), slice(apart, None)
        same = (kinds[here] >= 0) & (kinds[here] == kinds[there]) & (tensor[here] == tensor[there])
        first = np.flatnonzero(same)
        found.append(np.stack([tensor[first], first, first + apart], axis=1))
    rows = np.concatenate(found)
    return rows[np.lexsort(rows.T[::-1])]


def _conflicts(program: Program, colours: Colours, made: Ints) -> tuple[Ints, Ints]:
    """The names of each conflict, and the op that has it first: at a use, then at a result."""
    used = _clashes(program.use_dims, program.use_name, colours)
    user = np.searchsorted(program.op_uses, used[:, 0], side="right") - 1
    names = np.concatenate([program.use_name[used[:, 1:]], program.dim_name[made[:, 1:]]])
    ops = np.concatenate([user, program.value_op[made[:, 0]]])
    is_made = np.repeat([0, 1], [len(used), len(made)])
    order = np.lexsort((is_made, ops))  # stable, so that the rest stays in order
    names, ops = names[order], ops[order]
    _, first = np.unique(_keys(names, len(program.factor_size)), return_index=True)
    first.sort()
    return names[first], ops[first]


def _keys(pairs: Ints, count: int) -> Ints:
    """A number for each pair of names, either way round."""
    found: Ints = pairs.min(axis=1) * count + pairs.max(axis=1)
    return found


class _Table:
    """Looks up the conflicts between pairs of names."""

    def __init__(self, names: Ints, count: int) -> None:
        self.names = names
        self._count = count
        keys = _keys(names, count)
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]

    def find(self, pairs: Ints) -> tuple[Ints, Bools]:
        """For each pair its conflict or -1, and whether that holds them in the other order."""
        if not len(self._sorted):
            return np.full(len(pairs), -1), np.zeros(len(pairs), dtype=np.bool_)
        keys = _keys(pairs, self._count)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        there = (self._sorted[place] == keys) & (pairs >= 0).all(axis=1)
        number = np.where(there, self._order[place], -1)
        return number, self.names[number, 0] != pairs[:, 0]

    def boxes(self, first: Ints, second: Ints) -> Boxes:
        """The boxes between pairs of names, where both are in conflict and not in the same one."""
        (left, turned), (right, other) = self.find(first), self.find(second)
        kept = (left >= 0) & (right >= 0) & (left != right)
        return np.stack([left, right], axis=1)[kept], (turned != other)[kept]


def _boxes(program: Program, table: _Table, made: Ints) -> Boxes:
    """Boxes along M: a definition and a use of it."""
    starts, readers = program.readers
    value, first, second = made[~program.constant[made[:, 0]]].T
    counts = starts[value + 1] - starts[value]
    row = np.repeat(np.arange(len(value)), counts)
    use = readers[
        np.arange(len(row)) + np.repeat(starts[value] - np.cumsum(counts) + counts, counts)
    ]
    order = np.lexsort((row, use))
    row, use = row[order], use[order]
    places = np.stack([first, second], axis=1)[row]
    shift = program.use_dims[use] - program.value_dims[value[row]]
    return table.boxes(program.dim_name[places], program.use_name[places + shift[:, None]])


def _linked_boxes(program: Program, table: _Table) -> Boxes:
    """Boxes along loop and branch links."""
    target: dict[int, list[int]] = {}
    for left, right in program.links.tolist():
        target.setdefault(left, []).append(right)
    found = [
        (first, second, *pair)
        for first, second in (table.names.tolist() if target else ())
        for pair in zip(target.get(first, ()), target.get(second, ()), strict=False)
    ]
    rows = np.array(found, dtype=np.int64).reshape(-1, 4)
    return table.boxes(rows[:, :2], rows[:, 2:])
