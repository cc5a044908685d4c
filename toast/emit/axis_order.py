"""The order of the axes on a dimension, where it has several.

A layout says which axes shard a dimension, and the price does not ask for more. XLA does: it
gathers or scatters the last axes of a dimension in place, and for others reshuffles the whole
tensor first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.partial_sums import PartialRow

Precedences = dict[tuple[int, int, int], float]
"""(colour group, axis that stays, axis that comes or goes) -> bytes of what is moved so."""


def axis_orders(
    taken: dict[int, set[int]],
    masks: Sequence[int],
    program: Program,
    layouts: Layouts,
    sums: Mapping[PartialRow, float],
) -> dict[int, list[int]]:
    """For each colour group its axes: those that stay where others come or go lead.

    `taken` are the axes of each group, `masks` those of every item, as bits, and `sums` all partial
    sums with how often they are made. These are scattered over several axes in one piece only where
    the dimension that was contracted and the one that is sharded have them in one order: what no
    move speaks for takes the order of what its sums are scattered to, and that is the mesh's where
    nothing speaks for another.
    """
    ahead = _precedences(masks, program, layouts)
    ahead |= _followed(ahead, sums, masks, layouts)

    def kept(group: int, order: Iterable[int]) -> float:
        return sum(ahead.get((group, *pair), 0.0) for pair in combinations(order, 2))

    return {
        group: list(max(permutations(sorted(axes)), key=lambda order: kept(group, order)))
        for group, axes in taken.items()
    }


def _precedences(masks: Sequence[int], program: Program, layouts: Layouts) -> Precedences:
    groups = [item[0] for unit, _ in layouts.units for item in unit]
    found: Precedences = {}
    for (source, target), count in _moves(program, layouts).items():
        itemsize, dims = layouts.tensors[source]
        size = count * itemsize * math.prod(size for size, _ in dims)
        for (_, item), (_, wanted) in zip(dims, layouts.tensors[target][1], strict=True):
            have = masks[item] if item >= 0 else 0
            want = masks[wanted] if wanted >= 0 else 0
            for one in _bits(have & want):
                for other in _bits(have ^ want):
                    key = (groups[item], one, other)
                    found[key] = found.get(key, 0.0) + size
    return found


def _followed(
    ahead: Precedences, sums: Mapping[PartialRow, float], masks: Sequence[int], layouts: Layouts
) -> Precedences:
    """What is contracted, and no move speaks for, follows what its sums are scattered to."""
    groups = [item[0] for unit, _ in layouts.units for item in unit]
    found: Precedences = {}
    for (items, results, *_), count in sums.items():
        several = [item for item in items if masks[item] & (masks[item] - 1)]
        for computed, defined in results if several else ():
            itemsize, dims = layouts.tensors[computed]
            size = count * itemsize * math.prod(size for size, _ in dims)
            for (_, had), (_, kept) in zip(dims, layouts.tensors[defined][1], strict=True):
                new = (masks[kept] if kept >= 0 else 0) & ~(masks[had] if had >= 0 else 0)
                for item in several:
                    for pair in combinations(_bits(new & masks[item]), 2):
                        key = (groups[item], *_lead(ahead, groups[kept], pair))
                        found[key] = found.get(key, 0.0) + size
    spoken = {(group, *sorted(pair)) for group, *pair in ahead}
    return {key: size for key, size in found.items() if (key[0], *sorted(key[1:])) not in spoken}


def _lead(ahead: Precedences, group: int, pair: tuple[int, int]) -> tuple[int, int]:
    """A pair of axes in the order that moves want of a group, in the mesh's where none does."""
    back = pair[::-1]
    return back if ahead.get((group, *back), 0.0) > ahead.get((group, *pair), 0.0) else pair


def _bits(mask: int) -> list[int]:
    return [axis for axis in range(mask.bit_length()) if mask >> axis & 1]


def _moves(program: Program, layouts: Layouts) -> dict[tuple[int, int], float]:
    """How often a tensor is brought from one layout to another, by their numbers."""
    trips = np.repeat(program.op_trips, np.diff(program.op_uses))
    columns = [
        (layouts.result_tensor, layouts.value_tensor, program.op_trips[program.value_op]),
        (layouts.value_tensor[program.use_value], layouts.use_tensor, trips),
    ]
    found: dict[tuple[int, int], float] = {}
    for sources, targets, counts in columns:
        moved = sources != targets
        table = (column[moved].tolist() for column in (sources, targets, counts))
        for source, target, count in zip(*table, strict=True):
            found[source, target] = found.get((source, target), 0.0) + count
    return found
