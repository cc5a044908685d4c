"""The order of the axes on a dimension, where it has several.

A layout says which axes shard a dimension, and the price does not ask for more. XLA does: it
gathers or scatters the last axes of a dimension in place, and for others reshuffles the whole
tensor first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import numpy as np

from analysis.program import Program
from costmodel.layouts import Layouts

Precedences = dict[tuple[int, int, int], float]
"""(colour group, axis that stays, axis that comes or goes) -> bytes of what is moved so."""


def axis_orders(
    taken: dict[int, set[int]], masks: Sequence[int], program: Program, layouts: Layouts
) -> dict[int, list[int]]:
    """For each colour group its axes: those that stay where others come or go lead.

    `taken` are the axes of each group and `masks` those of every item, as bits. Where nothing
    speaks for an order it is the mesh's: sums over several axes are scattered only where the
    dimension that was contracted and the one that is sharded have them in one order.
    """
    ahead = _precedences(masks, program, layouts)

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
