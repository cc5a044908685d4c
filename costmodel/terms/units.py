"""Units and their items: what competes for axes, and the state that actions leave there."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from toast.analysis.analyse import Analysis
from toast.analysis.program import Ints
from toast.costmodel.program.arrays import flat, ints, starts
from toast.costmodel.program.sharding_units import Layouts


class Units(NamedTuple):
    """Unit n has the items from `start[n]` to `start[n + 1]`.

    By item: the axes that are fixed on it (`item_fixed`, in order `fixed_axis` from `fixed_start`
    on) and their product (`item_shards`, which depends on the mesh), its colour group and size, and
    where it is in a conflict the bit of its set in the resolution (or -1) and its side. By unit:
    the axes that are `forbidden` to it. By colour group: the units that have it, `touch_unit` from
    `touch_start` on.
    """

    start: Ints
    item_fixed: Ints
    fixed_start: Ints
    fixed_axis: Ints
    item_shards: Ints
    item_group: Ints
    item_size: Ints
    item_bit: Ints
    item_side: Ints
    forbidden: Ints
    touch_start: Ints
    touch_unit: Ints


class UnitScratch(NamedTuple):
    """By item the axes on it as bits (`mask`) and their product; by unit the axes given away."""

    mask: Ints
    shards: Ints
    used: Ints


def unit_columns(layouts: Layouts, analysis: Analysis, item_shards: Ints) -> Units:
    """The columns of all units."""
    bits = set_bits(analysis)
    items = [item for unit, _ in layouts.units for item in unit]
    fixed = [item[4] for item in items]
    touching: list[list[int]] = [[] for _ in range(analysis.groups.colours)]
    for number, (unit, _) in enumerate(layouts.units):
        for group in sorted({item[0] for item in unit if item[0] >= 0}):
            touching[group].append(number)
    return Units(
        start=ints(layouts.unit_start),
        item_fixed=fixed_axes(layouts),
        fixed_start=starts(fixed),
        fixed_axis=flat(fixed),
        item_shards=item_shards,
        item_group=ints([item[0] for item in items]),
        item_size=ints([item[1] for item in items]),
        item_bit=ints([int(bits[item[2]]) if item[2] >= 0 else -1 for item in items]),
        item_side=ints([item[3] for item in items]),
        forbidden=ints([forbidden for _, forbidden in layouts.units]),
        touch_start=starts(touching),
        touch_unit=flat(touching),
    )


def fixed_axes(layouts: Layouts) -> Ints:
    """The axes on each item in every state, as bits."""
    items = (item for unit, _ in layouts.units for item in unit)
    return ints([sum(1 << axis for axis in item[4]) for item in items])


def unit_scratch(units: Units) -> UnitScratch:
    """Working arrays for the state."""
    items = len(units.item_group)
    return UnitScratch(
        mask=np.zeros(items, dtype=np.int64),
        shards=np.ones(items, dtype=np.int64),
        used=np.zeros(len(units.start) - 1, dtype=np.int64),
    )


def set_bits(analysis: Analysis) -> Ints:
    """The bit of each set group within the resolution order of its colour group."""
    seen: Counter[int] = Counter()
    bits = []
    for group in analysis.groups.set_colour.tolist():
        bits.append(seen[group])
        seen[group] += 1
    return ints(bits)
