"""The compiled evaluator: from a list of actions to time, memory and a key of the layout.

Every function here works on arrays made beforehand, allocates nothing and runs without the GIL.
An action (colour group, axis, resolution bits) shards the items of that group in every unit, first
come, first kept: an axis is used at most once in a unit, and an item takes it only where the
product of its axes divides its size. Bit k of the resolution chooses the side of set k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.costmodel.kernels.axis_order import find_orders, reorders
from toast.costmodel.kernels.combiner import spared
from toast.costmodel.kernels.compute import price_fusions
from toast.costmodel.kernels.incremental import mark_changes, overwrite, total
from toast.costmodel.kernels.main_memory import price_main_memory
from toast.costmodel.kernels.manual_computations import price_regions
from toast.costmodel.kernels.memory import find_peaks, squeeze
from toast.costmodel.kernels.reshard import (
    price_halos,
    price_partial_sums,
    price_reshards,
    price_unfused_sums,
)
from toast.costmodel.kernels.sum_order import summed_whole

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""With it and the two factors beside it the bits of a number are mixed (splitmix64)."""


class Measured(NamedTuple):
    """One evaluated state: seconds, bytes and the key of its layout.

    `peak` is what the compiler lays out, `room` what it would if the device had the memory.
    """

    compute: float
    communication: float
    peak: float
    room: float
    key: int


FIGURES = len(Measured._fields) - 1
"""How many figures a state has beside its key."""


@inner
def reset(t: Tables, s: Scratch) -> None:
    """Back to the state without actions: unsharded but for what is pinned."""
    overwrite(s.units.mask, t.units.item_fixed)
    overwrite(s.units.shards, t.units.item_shards)
    overwrite(s.units.used, t.units.forbidden)


@inner
def shard(t: Tables, s: Scratch, group: int, axis: int, bits: int) -> int:
    """Apply one action; returns how many items it sharded."""
    taken = 0
    bit = 1 << axis
    size = t.mesh.axis_size[axis]
    for k in range(t.units.touch_start[group], t.units.touch_start[group + 1]):
        unit = t.units.touch_unit[k]
        if s.units.used[unit] & bit:
            continue
        for i in range(t.units.start[unit], t.units.start[unit + 1]):
            if t.units.item_group[i] != group:
                continue
            if (
                t.units.item_bit[i] >= 0
                and ((bits >> t.units.item_bit[i]) & 1) != t.units.item_side[i]
            ):
                continue
            if t.units.item_size[i] % (s.units.shards[i] * size) != 0:
                continue
            s.units.mask[i] |= bit
            s.units.shards[i] *= size
            s.units.used[unit] |= bit
            taken += 1
            break
    return taken


@inner
def choose(t: Tables, s: Scratch, unit: int, axis: int, item: int) -> None:
    """Apply one place of a refinement: an axis on one item of a unit only, or on none (-1)."""
    bit = 1 << axis
    size = t.mesh.axis_size[axis]
    first, end = t.units.start[unit], t.units.start[unit + 1]
    for i in range(first, end):
        if s.units.mask[i] & bit and not t.units.item_fixed[i] & bit:
            s.units.mask[i] &= ~bit
            s.units.shards[i] //= size
            s.units.used[unit] &= ~bit
    if (
        item < 0
        or s.units.used[unit] & bit
        or t.units.item_size[first + item] % (s.units.shards[first + item] * size)
    ):
        return
    s.units.mask[first + item] |= bit
    s.units.shards[first + item] *= size
    s.units.used[unit] |= bit


@inner
def layout_key(s: Scratch) -> int:
    """A 64-bit key of the whole layout: equal for every order of actions that leads to it."""
    key = np.uint64(0)
    for i in range(len(s.units.mask)):
        if s.units.mask[i]:
            mixed = (np.uint64(i) << np.uint64(32) ^ np.uint64(s.units.mask[i])) + GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            key ^= mixed ^ (mixed >> np.uint64(31))
    return np.int64(key & np.uint64(0x7FFFFFFFFFFFFFFF))  # type: ignore[return-value]


@inner
def price(t: Tables, s: Scratch) -> tuple[float, float, float]:
    """Compute seconds, communication seconds and peak bytes of the layout in `s`.

    What the layout did not change since the last time is not priced again.
    """
    s.journal.noted[0] = 0
    mark_changes(t, s)
    compute, communication = price_regions(t, s)
    compute += price_fusions(t, s)
    communication += price_partial_sums(t, s) + price_reshards(t, s) + price_halos(t, s)
    find_orders(t, s)
    communication += reorders(t, s)
    communication += summed_whole(t, s)
    communication -= spared(t, s)
    compute += price_unfused_sums(t, s) + total(s.reshards.local_seconds)
    compute += price_main_memory(t, s, compute)
    find_peaks(t, s, compute)
    peak, again = squeeze(t, s)
    return compute + again, communication, peak


@entry
def step_seconds(compute: float, communication: float, overlap: float) -> float:
    """Seconds of a step in which a part of the communication hides behind computation.

    Of what could run at once, the shorter of the two, the part `overlap` (0 to 1) does.
    """
    return compute + communication - overlap * min(compute, communication)


@inner
def evaluate(
    t: Tables, s: Scratch, groups: Ints, axes: Ints, bits: Ints, count: int
) -> tuple[float, float, float, int]:
    """Price the state that `count` actions lead to; see `Measured` for what comes back.

    A negative group is a place of a refinement: -2 - unit, with the item in place of the bits.
    """
    reset(t, s)
    for k in range(count):
        if groups[k] >= 0:
            shard(t, s, groups[k], axes[k], bits[k])
        else:
            choose(t, s, -2 - groups[k], axes[k], bits[k])
    compute, communication, peak = price(t, s)
    return compute, communication, peak, layout_key(s)


@entry
def evaluate_many(
    t: Tables,
    s: Scratch,
    starts: Ints,
    groups: Ints,
    axes: Ints,
    bits: Ints,
    costs: Floats,
    keys: Ints,
) -> None:
    """Price states one after another: state n is the actions from `starts[n]` to the next.

    `costs` [states, 4] takes what comes before the key in `Measured`.
    """
    for n in range(len(keys)):
        a, b = starts[n], starts[n + 1]
        compute, communication, peak, key = evaluate(t, s, groups[a:b], axes[a:b], bits[a:b], b - a)
        costs[n, 0] = compute
        costs[n, 1] = communication
        costs[n, 2] = peak
        costs[n, 3] = s.schedule.peaks[0]
        keys[n] = key
