"""The compiled evaluator: from a list of actions to time, memory and a key of the layout.

Every function here works on arrays made beforehand, allocates nothing and runs without the GIL.
An action (colour group, axis, resolution bits) shards the items of that group in every unit, first
come, first kept: an axis is used at most once in a unit, and an item takes it only where the
product of its axes divides its size. Bit k of the resolution chooses the side of set k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from analysis.program import Floats, Ints
from costmodel.kerneljournal import (
    BASE,
    COLUMNS,
    COPY,
    EDGE,
    FEED,
    HALO,
    LIVE,
    PARTIAL,
    ROOT,
    SUM,
    UNFUSED,
    Bound,
    mark,
    note,
    note_collective,
)
from costmodel.tables import Tables

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVE_PERMUTE = range(5)
ARITHMETIC, BYTES, ELEMENTS = (int(bound) for bound in Bound)


class Scratch(NamedTuple):
    """Working arrays of one thread.

    `mask[item]` is the set of axes on an item as bits, `shards[item]` their product, `used[unit]`
    the axes that a unit has given away; `local[tensor]` bytes on one device; `reduced[row]` the
    axes over which a row of the partials has partial sums. `wire` [5, 2^axes, 3]
    collects count, bytes and seconds by collective and axes. `journal` [entries, columns],
    where there is one, has what was added up, and `noted` how far it is written; see
    `kerneljournal`.
    """

    mask: Ints
    shards: Ints
    used: Ints
    local: Floats
    delta: Floats
    reduced: Ints
    wire: Floats
    journal: Floats | None
    noted: Ints


class Measured(NamedTuple):
    """One evaluated state: seconds, bytes and the key of its layout."""

    compute: float
    communication: float
    peak: float
    key: int


def new_scratch(tables: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit `tables`; with a journal where it is to have entries."""
    items, axes = len(tables.item_group), len(tables.axis_size)
    return Scratch(
        mask=np.zeros(items, dtype=np.int64),
        shards=np.ones(items, dtype=np.int64),
        used=np.zeros(len(tables.unit_start) - 1, dtype=np.int64),
        local=np.zeros(len(tables.tensor_itemsize), dtype=np.float64),
        delta=np.zeros(tables.positions + 2, dtype=np.float64),
        reduced=np.zeros(len(tables.part_weight), dtype=np.int64),
        wire=np.zeros((5, 1 << axes, 3), dtype=np.float64),
        journal=np.zeros((entries, COLUMNS), dtype=np.float64) if entries else None,
        noted=np.zeros(4, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def reset(t: Any, s: Any) -> None:
    """Back to the state without actions: unsharded but for what is pinned."""
    s.mask[:] = t.item_fixed
    s.shards[:] = t.item_shards
    s.used[:] = t.unit_forbidden


@njit(cache=True, nogil=True)
def shard(t: Any, s: Any, group: int, axis: int, bits: int) -> int:
    """Apply one action; returns how many items it sharded."""
    taken = 0
    bit = 1 << axis
    size = t.axis_size[axis]
    for k in range(t.touch_start[group], t.touch_start[group + 1]):
        unit = t.touch_unit[k]
        if s.used[unit] & bit:
            continue
        for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
            if t.item_group[i] != group:
                continue
            if t.item_bit[i] >= 0 and ((bits >> t.item_bit[i]) & 1) != t.item_side[i]:
                continue
            if t.item_size[i] % (s.shards[i] * size) != 0:
                continue
            s.mask[i] |= bit
            s.shards[i] *= size
            s.used[unit] |= bit
            taken += 1
            break
    return taken


@njit(cache=True, nogil=True)
def layout_key(s: Any) -> int:
    """A 64-bit key of the whole layout: equal for every order of actions that leads to it."""
    key = np.uint64(1469598103934665603)
    for i in range(len(s.mask)):
        key = (key ^ np.uint64(s.mask[i])) * np.uint64(1099511628211)
        key ^= key >> np.uint64(29)
    return np.int64(key & np.uint64(0x7FFFFFFFFFFFFFFF))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def _local_bytes(t: Any, s: Any) -> None:
    for tensor in range(len(t.tensor_itemsize)):
        size = t.tensor_itemsize[tensor]
        for d in range(t.tensor_start[tensor], t.tensor_start[tensor + 1]):
            item = t.dim_item[d]
            if item >= 0 and s.shards[item] > 1:
                n = s.shards[item]
                size *= (t.dim_size[d] + n - 1) // n
            else:
                size *= t.dim_size[d]
        s.local[tensor] = size


@njit(cache=True, nogil=True)
def _collective(t: Any, s: Any, kind: int, axes: int, size: float, weight: float) -> float:
    """Seconds of one collective over `axes`, counted `weight` times.

    `size` is the larger of what goes in and comes out on one device, in bytes.
    """
    wire = size * t.axes_wire[kind, axes]
    seconds = t.axes_alpha[kind, axes, 0] + t.axes_beta[kind, axes, 0] * size
    for k in range(1, t.axes_alpha.shape[2]):
        seconds = min(seconds, t.axes_alpha[kind, axes, k] + t.axes_beta[kind, axes, k] * size)
    seconds *= weight
    s.wire[kind, axes, 0] += weight
    s.wire[kind, axes, 1] += weight * wire
    s.wire[kind, axes, 2] += seconds
    note_collective(s.journal, s.noted, kind, axes, weight, weight * wire, seconds)
    return seconds


@njit(cache=True, nogil=True)
def _shards_of(t: Any, axes: int) -> int:
    return t.axes_shards[axes]


@njit(cache=True, nogil=True)
def _window_factor(t: Any, source: int, axes: int) -> float:
    """How much more a reduce-scatter sends that runs block by block beside its product.

    Between n devices it sends about n + 1/2 blocks and not n - 1. Two devices have nothing to
    gain from it, nor have four with f32, which take longer to send than to multiply.
    """
    n = _shards_of(t, axes)
    if not t.windowed or n < 4 or (n < 8 and t.tensor_itemsize[source] > 2):
        return 1.0
    return (n + 0.5) / (n - 1.0)


@njit(cache=True, nogil=True)
def _reshard(
    t: Any,
    s: Any,
    source: int,
    target: int,
    reduced: int,
    product: bool,
    width: float,
    weight: float,
) -> float:
    """Seconds to bring `source` to the layout of `target`.

    `reduced` are axes over which `source` holds partial sums, those of a `product` or others;
    `width` is how wide its elements are when they travel, relative to how they are stored.
    Slicing is free; partial sums become a reduce-scatter where one dimension of the target is
    sharded on their axes and an all-reduce elsewhere; axes that move between dimensions are an
    all-to-all, axes that vanish an all-gather.
    """
    a, b = t.tensor_start[source], t.tensor_start[target]
    rank = t.tensor_start[source + 1] - a
    gathered, moved, sliced = 0, 0, 0
    before, after = 0, 0
    wanting = 0
    for d in range(rank):
        item, wanted = t.dim_item[a + d], t.dim_item[b + d]
        have = s.mask[item] if item >= 0 else 0
        want = s.mask[wanted] if wanted >= 0 else 0
        gathered |= have & ~want
        sliced |= want & ~have
        before |= have
        after |= want
        wanting += 1 if want & ~have & reduced else 0
    moved = gathered & after
    gathered &= ~after
    sliced &= ~before
    size = s.local[source] * width
    seconds = 0.0
    scattered = reduced & sliced
    if wanting > 1:
        scattered = 0
    if scattered:
        moving = size * (_window_factor(t, source, scattered) if product else 1.0)
        seconds += _collective(t, s, REDUCE_SCATTER, scattered, moving, weight)
        size /= _shards_of(t, scattered)
    summed = reduced & ~scattered
    sliced &= ~scattered
    if sliced & ~summed:
        size /= _shards_of(t, sliced & ~summed)
    if summed:
        seconds += _collective(t, s, ALL_REDUCE, summed, size, weight)
    if sliced & summed:
        size /= _shards_of(t, sliced & summed)
    if moved:
        seconds += _collective(t, s, ALL_TO_ALL, moved, size, weight)
    if gathered:
        size *= _shards_of(t, gathered)
        seconds += _collective(t, s, ALL_GATHER, gathered, size, weight)
    return seconds


@njit(cache=True, nogil=True)
def _same(t: Any, s: Any, source: int, target: int) -> bool:
    a, b = t.tensor_start[source], t.tensor_start[target]
    for d in range(t.tensor_start[source + 1] - a):
        item, wanted = t.dim_item[a + d], t.dim_item[b + d]
        have = s.mask[item] if item >= 0 else 0
        want = s.mask[wanted] if wanted >= 0 else 0
        if have != want:
            return False
    return True


@njit(cache=True, nogil=True)
def _compute(t: Any, s: Any) -> float:
    """Roofline of every kernel: arithmetic, bytes moved, or elements handled."""
    total = 0.0
    for root in range(len(t.root_weight)):
        first_dot, last_dot = t.root_dot_start[root], t.root_dot_start[root + 1]
        first, last = t.root_tensor_start[root], t.root_tensor_start[root + 1]
        writes = first + t.root_writes[root]
        moved, elements = 0.0, 0.0
        for k in range(first, last):
            tensor = t.root_tensor[k]
            moved += s.local[tensor]
            if k < writes or first_dot == last_dot:
                elements = max(elements, s.local[tensor] / max(t.tensor_itemsize[tensor], 1.0))
        arithmetic = 0.0
        for k in range(first_dot, last_dot):
            shards = 1
            unit = t.dot_unit[k]
            for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
                shards *= s.shards[i]
            arithmetic += t.dot_seconds[k] / shards
        seconds = max(arithmetic, moved / t.bandwidth, elements / t.element_rate)
        bound = ARITHMETIC if seconds == arithmetic else ELEMENTS
        bound = BYTES if seconds == moved / t.bandwidth else bound
        weight = t.root_weight[root]
        spent = weight * (seconds + t.overhead)
        note(s.journal, s.noted, ROOT, root, 0, bound, 0, weight, weight * moved, spent)
        total += spent
    return total


@njit(cache=True, nogil=True)
def _is_added(t: Any, s: Any, row: int) -> bool:
    """Whether a row's partial sums are added to those of an earlier row, and summed there.

    What a scatter leaves is, where the sum is scattered.
    """
    other = t.part_before[row]
    if other < 0 or s.reduced[other] != s.reduced[row]:
        return False
    one, two = t.part_result_start[row], t.part_result_start[other]
    products = t.part_product[row] and t.part_product[other]
    if not products and s.local[t.part_defined[one]] == s.local[t.part_computed[one]]:
        return False
    same = s.local[t.part_computed[one]] == s.local[t.part_computed[two]]
    return bool(same and s.local[t.part_defined[one]] == s.local[t.part_defined[two]])


@njit(cache=True, nogil=True)
def _partials(t: Any, s: Any) -> float:
    total = 0.0
    for row in range(len(t.part_weight)):
        reduced = 0
        for k in range(t.part_item_start[row], t.part_item_start[row + 1]):
            reduced |= s.mask[t.part_item[k]]
        s.reduced[row] = reduced
        for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
            computed, defined = t.part_computed[k], t.part_defined[k]
            if reduced and _is_added(t, s, row):
                continue
            if reduced or not _same(t, s, computed, defined):
                mark(s.journal, s.noted, PARTIAL, row, k - t.part_result_start[row])
                product, weight = t.part_product[row] > 0, t.part_weight[row]
                total += _reshard(t, s, computed, defined, reduced, product, 1.0, weight)
    return total


@njit(cache=True, nogil=True)
def _unfused_sums(t: Any, s: Any) -> float:
    """Seconds to write partial sums and read what the collective made of them.

    A collective cannot be fused into, so what would have stayed inside a kernel goes to memory.
    """
    total = 0.0
    for row in range(len(t.part_weight)):
        if s.reduced[row]:
            for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
                weight, place = t.part_weight[row], k - t.part_result_start[row]
                moved = 2.0 * weight * s.local[t.part_computed[k]]
                spent = moved / t.bandwidth
                note(s.journal, s.noted, UNFUSED, row, place, BYTES, 0, weight, moved, spent)
                total += spent
    return total


@njit(cache=True, nogil=True)
def _edges(t: Any, s: Any) -> float:
    """Seconds to bring values to the layouts that their uses want, each layout once.

    What one product alone reads, a TPU sends in the 16 bits that its matrix unit takes.
    """
    total = 0.0
    for row in range(len(t.edge_weight)):
        source = t.edge_from[row]
        first, last = t.edge_to_start[row], t.edge_to_start[row + 1]
        for k in range(first, last):
            target = t.edge_to[k]
            if _same(t, s, source, target):
                continue
            known, alone = False, t.edge_to_product[k] > 0
            for j in range(first, last):
                if j != k and _same(t, s, t.edge_to[j], target):
                    known, alone = known or j < k, False
            if not known:
                weight = t.edge_weight[row] * t.edge_to_trips[k]
                narrow = alone and t.narrows and t.tensor_itemsize[source] == 4
                width = 0.5 if narrow else 1.0
                mark(s.journal, s.noted, EDGE, row, k - first)
                total += _reshard(t, s, source, target, 0, False, width, weight)
    return total


@njit(cache=True, nogil=True)
def _halos(t: Any, s: Any) -> float:
    total = 0.0
    for row in range(len(t.halo_weight)):
        item = t.halo_item[row]
        axes = s.mask[item]
        if axes:
            strip = min(t.halo_part[row] * s.shards[item], 1.0) * s.local[t.halo_tensor[row]]
            mark(s.journal, s.noted, HALO, row, 0)
            total += _collective(t, s, COLLECTIVE_PERMUTE, axes, strip, t.halo_weight[row])
    return total


@njit(cache=True, nogil=True)
def _hold(s: Any, table: int, row: int, first: int, last: int, size: float) -> None:
    """Count `size` bytes over the positions [first, last]."""
    note(s.journal, s.noted, table, row, 0, first, last, 1.0, size, 0.0)
    s.delta[first] += size
    s.delta[last + 1] -= size


@njit(cache=True, nogil=True)
def _add_copies(t: Any, s: Any) -> None:
    """Uses that want one layout share one copy, alive from the first of them to the last."""
    for group in range(len(t.copy_start) - 1):
        first, last = t.copy_start[group], t.copy_start[group + 1]
        for row in range(first, last):
            tensor = t.copy_tensor[row]
            if _same(t, s, t.copy_source[group], tensor):
                continue
            begin, end, known = t.copy_from[row], t.copy_to[row], False
            for other in range(first, last):
                if other != row and _same(t, s, t.copy_tensor[other], tensor):
                    known = known or other < row
                    begin = min(begin, t.copy_from[other])
                    end = max(end, t.copy_to[other])
            if not known:
                _hold(s, COPY, row, begin, end, s.local[tensor])


@njit(cache=True, nogil=True)
def _add_sums(t: Any, s: Any) -> None:
    """Partial sums that are scattered live beside the result; others are summed in place.

    A result that would have been fused away is stored to be summed.
    Beside them lives what feeds a product that sends its sums block by block.
    """
    for k in range(len(t.sum_row)):
        row, size = t.sum_row[k], s.local[t.sum_tensor[k]]
        made = s.local[t.part_defined[t.part_result_start[row]]]
        if s.reduced[row] and (size > made or not t.sum_stored[k]):
            _hold(s, SUM, k, t.sum_at[k], t.sum_at[k], size)
    for k in range(len(t.feed_row)):
        row, size = t.feed_row[k], s.local[t.feed_tensor[k]]
        result = t.part_result_start[row]
        if s.reduced[row] and s.local[t.part_computed[result]] > s.local[t.part_defined[result]]:
            _hold(s, FEED, k, t.feed_at[k], t.feed_at[k], size)


@njit(cache=True, nogil=True)
def _peak(t: Any, s: Any) -> float:
    base = 0.0
    for row in range(len(t.base_tensor)):
        size = t.base_count[row] * s.local[t.base_tensor[row]]
        note(s.journal, s.noted, BASE, row, 0, 0, t.positions, t.base_count[row], size, 0.0)
        base += size
    s.delta[:] = 0.0
    for row in range(len(t.live_tensor)):
        _hold(s, LIVE, row, t.live_from[row], t.live_to[row], s.local[t.live_tensor[row]])
    _add_copies(t, s)
    _add_sums(t, s)
    peak = 0.0
    alive = 0.0
    for position in range(len(s.delta)):
        alive += s.delta[position]
        peak = max(peak, alive)
    return base + peak


@njit(cache=True, nogil=True)
def price(t: Any, s: Any) -> tuple[float, float, float]:
    """Compute seconds, communication seconds and peak bytes of the layout in `s`."""
    s.wire[:] = 0.0
    s.noted[0] = 0
    _local_bytes(t, s)
    compute = _compute(t, s)
    communication = _partials(t, s) + _edges(t, s) + _halos(t, s)
    return compute + _unfused_sums(t, s), communication, _peak(t, s)


@njit(cache=True, nogil=True)
def step_seconds(compute: float, communication: float, overlap: float) -> float:
    """Seconds of a step in which a part of the communication hides behind computation.

    Of what could run at once, the shorter of the two, the part `overlap` (0 to 1) does.
    """
    return compute + communication - overlap * min(compute, communication)


@njit(cache=True, nogil=True)
def evaluate(
    t: Any, s: Any, groups: Ints, axes: Ints, bits: Ints, count: int
) -> tuple[float, float, float, int]:
    """Price the state that `count` actions lead to; see `Measured` for what comes back."""
    reset(t, s)
    for k in range(count):
        shard(t, s, groups[k], axes[k], bits[k])
    compute, communication, peak = price(t, s)
    return compute, communication, peak, layout_key(s)
