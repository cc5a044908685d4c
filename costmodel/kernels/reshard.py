"""Kernels for communication: which collectives a layout implies, and what each costs."""

from __future__ import annotations

from typing import Any

from toast.analysis.jit import inner
from toast.costmodel.dependencies import EDGES, HALOS, PARTIALS
from toast.costmodel.kernels.axis_order import duration, remember, remember_scattered
from toast.costmodel.kernels.combiner import SCATTERED, WHOLE, remember_sum
from toast.costmodel.kernels.incremental import axes_on, is_stale, total
from toast.costmodel.kernels.journal import (
    EDGE,
    HALO,
    LOCAL,
    PARTIAL,
    UNFUSED,
    Bound,
    CollectiveReason,
    mark,
    note,
    note_collective,
)
from toast.costmodel.network.collectives import Kind

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVE_PERMUTE = map(int, Kind)
BYTES, ELEMENTS = int(Bound.BYTES), int(Bound.ELEMENTS)
(
    INTO_SHARDS, UNWANTED, TWO_DIMENSIONS, ALL_DEVICES, BATCH, LOOKUP, SLICED, SHARDED_ALREADY,
    SEGMENTS, _, BEHIND_LOOP, REGATHERED, GATHERED, EXCHANGED, _, NEIGHBOURS, ADDED,
) = map(int, CollectiveReason)  # fmt: skip


@inner
def collective(t: Any, s: Any, kind: int, axes: int, size: float, weight: float, why: int) -> float:
    """Seconds of one collective over `axes`, counted `weight` times, for a `CollectiveReason`.

    `size` is the larger of what goes in and comes out on one device, in bytes.
    """
    wire = size * t.axes_wire[kind, axes]
    seconds = weight * duration(t, kind, axes, size)
    note_collective(s.journal, s.noted, kind, axes, weight, weight * wire, seconds, why)
    return seconds


@inner
def same(t: Any, s: Any, source: int, target: int) -> bool:
    """Whether two tensors of one shape are laid out alike."""
    a, b = t.tensor_start[source], t.tensor_start[target]
    for d in range(t.tensor_start[source + 1] - a):
        if axes_on(t, s, a + d) != axes_on(t, s, b + d):
            return False
    return True


@inner
def _changes(t: Any, s: Any, source: int, target: int) -> tuple[int, int, int]:
    """Axes that vanish, that move from one dimension to another, and that come."""
    a, b = t.tensor_start[source], t.tensor_start[target]
    lost, before, after, come = 0, 0, 0, 0
    for d in range(t.tensor_start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        lost |= have & ~want
        come |= want & ~have
        before |= have
        after |= want
    return lost & ~after, lost & after, come & ~before


@inner
def _taken(
    t: Any, s: Any, source: int, target: int, reduced: int, row: int
) -> tuple[int, int, int]:
    """Axes of the partial sums of a row that are scattered, axes gathered in between, and why.

    Nothing is scattered where two dimensions want it, over all axes of chips that do not, of a
    lookup over several axes, and of a sum that a TPU cuts slices of. Nor are some axes and not all,
    where a scatter makes the sums or a dimension that is sharded already takes them. A product's
    batch that is sharded already is gathered whole, and cut again.
    """
    a, b = t.tensor_start[source], t.tensor_start[target]
    scattered, wanting, grown, again = 0, 0, 0, 0
    batch = t.part_batch[row] if row >= 0 else 0
    for d in range(t.tensor_start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        taken = want & ~have & reduced
        if taken:
            scattered |= taken
            wanting += 1
            grown |= taken if have & want else 0
            again |= have if d < batch else 0
    if scattered == 0:
        return 0, again, UNWANTED
    why = INTO_SHARDS
    if wanting > 1:
        why = TWO_DIMENSIONS
    elif scattered == t.summed_whole:
        why = ALL_DEVICES
    elif again:
        why = BATCH
    elif row >= 0 and t.part_lookup[row] and scattered & (scattered - 1):
        why = LOOKUP
    elif row >= 0 and t.part_cut[row] >= 0 and same(t, s, target, t.part_cut[row]):
        why = SLICED
    elif scattered != reduced and grown:
        why = SHARDED_ALREADY
    elif scattered != reduced and row >= 0 and t.part_segments[row]:
        why = SEGMENTS
    return scattered if why == INTO_SHARDS else 0, again, why


@inner
def _is_behind(t: Any, s: Any, source: int, target: int, reduced: int, row: int) -> bool:
    """Whether what of a row's sums is not scattered is summed behind the loop that adds them up.

    Not where it is cut afterwards, or moved: the loop would add something else.
    """
    if row < 0 or t.part_behind[row] <= 1.0:
        return False
    gathered, moved, sliced = _changes(t, s, source, target)
    scattered, again, _ = _taken(t, s, source, target, reduced, row)
    cut = sliced & reduced & ~scattered
    return (reduced & ~scattered) != 0 and (gathered | moved | again | cut) == 0


@inner
def reshard(
    t: Any, s: Any, source: int, target: int, reduced: int, row: int, width: float, weight: float
) -> float:
    """Seconds to bring `source` to the layout of `target`.

    `reduced` are axes over which `source` holds partial sums, those of a `row` of the partials
    (or -1); `width` is how wide its elements are when they travel, relative to how they are stored.
    Slicing is free; partial sums become a reduce-scatter where `_taken` says so and an all-reduce
    elsewhere; axes that move between dimensions are an all-to-all, axes that vanish an all-gather.
    """
    gathered, moved, sliced = _changes(t, s, source, target)
    scattered, again, why = _taken(t, s, source, target, reduced, row)
    size = s.local[source] * width
    seconds = 0.0
    if scattered:
        seconds += collective(t, s, REDUCE_SCATTER, scattered, size, weight, why)
        size /= t.axes_shards[scattered]
    summed = reduced & ~scattered
    sliced &= ~scattered
    if sliced & ~summed:
        size /= t.axes_shards[sliced & ~summed]
    if summed:
        times = weight
        why = UNWANTED if scattered else why
        if _is_behind(t, s, source, target, reduced, row):
            times, size = weight / t.part_behind[row], size * t.part_widened[row]
            why = BEHIND_LOOP
        seconds += collective(t, s, ALL_REDUCE, summed, size, times, why)
    if again:
        whole = size * t.axes_shards[again]
        seconds += collective(t, s, ALL_GATHER, again, whole, weight, REGATHERED)
    if sliced & summed:
        size /= t.axes_shards[sliced & summed]
    if moved:
        seconds += collective(t, s, ALL_TO_ALL, moved, size, weight, EXCHANGED)
    if gathered:
        size *= t.axes_shards[gathered]
        seconds += collective(t, s, ALL_GATHER, gathered, size, weight, GATHERED)
    return seconds


@inner
def _is_added(t: Any, s: Any, row: int) -> bool:
    """Whether a row's partial sums are added to those of an earlier row, and summed there.

    A product's join those of a scatter only where the sum is scattered over devices, two scatters'
    only where it is not. Sums over the same axes with as many bytes on a device are taken to be
    laid out alike.
    """
    other = t.part_before[row]
    if other < 0 or s.reduced[other] != s.reduced[row]:
        return False
    one, two = t.part_result_start[row], t.part_result_start[other]
    products = t.part_product[row] + t.part_product[other]
    whole = s.local[t.part_defined[one]] == s.local[t.part_computed[one]]
    if (products == 0 and not whole) or (products == 1 and whole):
        return False
    alike = s.local[t.part_computed[one]] == s.local[t.part_computed[two]]
    return bool(alike and s.local[t.part_defined[one]] == s.local[t.part_defined[two]])


@inner
def _remember_sums(t: Any, s: Any, row: int, result: int, scattered: int, summed: int) -> None:
    """Keep what `reshard` prices of a result's sums."""
    source, target = t.part_computed[result], t.part_defined[result]
    _, _, sliced = _changes(t, s, source, target)
    size = s.local[source]
    remember_sum(t, s, row, result, SCATTERED, scattered, size)
    if scattered:
        size /= t.axes_shards[scattered]
    if sliced & ~scattered & ~summed:
        size /= t.axes_shards[sliced & ~scattered & ~summed]
    remember_sum(t, s, row, result, WHOLE, summed, size)


@inner
def partials(t: Any, s: Any) -> float:
    """Seconds of the collectives at the results of ops; keeps the axes of partial sums."""
    for row in range(len(t.part_weight)):
        if not is_stale(t, s, PARTIALS, row):
            continue
        reduced, spent = 0, 0.0
        for k in range(t.part_item_start[row], t.part_item_start[row + 1]):
            reduced |= s.mask[t.part_item[k]]
        s.reduced[row], s.behind[row] = reduced, False
        for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
            computed, defined = t.part_computed[k], t.part_defined[k]
            s.turn_seconds[k], s.cut_axes[k] = 0.0, 0
            s.sum_axes[k, 0], s.sum_axes[k, 1] = 0, 0
            s.sum_reason[k] = UNWANTED
            if reduced and _is_added(t, s, row):
                s.sum_reason[k] = ADDED
                continue
            if reduced or not same(t, s, computed, defined):
                mark(s.journal, s.noted, PARTIAL, row, k - t.part_result_start[row])
                weight = t.part_weight[row]
                spent += reshard(t, s, computed, defined, reduced, row, 1.0, weight)
                whole = s.local[computed] == s.local[defined]
                s.behind[row] = whole and _is_behind(t, s, computed, defined, reduced, row)
                remember(t, s, k, row, computed, defined, 1.0, weight)
                scattered, _, s.sum_reason[k] = _taken(t, s, computed, defined, reduced, row)
                remember_scattered(t, s, k, row, scattered, reduced, s.local[computed])
                if t.part_together[row] >= 0 and not _is_behind(
                    t, s, computed, defined, reduced, row
                ):
                    _remember_sums(t, s, row, k, scattered, reduced & ~scattered)
        s.part_seconds[row] = spent
    return total(s.part_seconds)


@inner
def unfused_sums(t: Any, s: Any) -> float:
    """Seconds to compute from sums over devices what a product would have made inside.

    A product writes its sums as it writes any result; a pass of its own reads what the collective
    made of them, where no other does.
    """
    for row in range(len(t.part_weight)):
        if not is_stale(t, s, PARTIALS, row):
            continue
        s.stored_seconds[row] = 0.0
        if s.reduced[row] and not s.behind[row]:
            for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
                weight, place = t.part_weight[row], k - t.part_result_start[row]
                moved = weight * t.part_passes[row] * s.local[t.part_defined[k]]
                if moved == 0.0:
                    continue
                spent = moved / t.bandwidth
                note(s.journal, s.noted, UNFUSED, row, place, BYTES, 0, weight, moved, spent)
                s.stored_seconds[row] += spent
    return total(s.stored_seconds)


@inner
def is_narrow(t: Any, width: int) -> bool:
    """Whether what a use wants in this width travels in 16 bits."""
    return bool(width > (0 if t.narrows else 1))


@inner
def edges(t: Any, s: Any) -> float:
    """Seconds to bring values to the layouts that their uses want, each layout once.

    An f32 that only products read so, a TPU sends in the 16 bits that its matrix unit takes.
    What is narrowed once it is joined with others is sent in 16 bits by all.
    """
    for row in range(len(t.edge_weight)):
        if not is_stale(t, s, EDGES, row):
            continue
        spent, source = 0.0, t.edge_from[row]
        first, last = t.edge_to_start[row], t.edge_to_start[row + 1]
        s.local_seconds[row], rounded = 0.0, False
        for k in range(first, last):
            target, move = t.edge_to[k], len(t.part_computed) + k
            s.turn_seconds[move] = 0.0
            if same(t, s, source, target):
                continue
            known = False
            narrow = is_narrow(t, t.edge_to_narrow[k])
            for j in range(first, last):
                if j != k and same(t, s, t.edge_to[j], target):
                    known, narrow = known or j < k, narrow and is_narrow(t, t.edge_to_narrow[j])
            if not known:
                weight = t.edge_weight[row] * t.edge_to_trips[k]
                width = 0.5 if narrow else 1.0
                mark(s.journal, s.noted, EDGE, row, k - first)
                sending = reshard(t, s, source, target, 0, -1, width, weight)
                spent += sending
                remember(t, s, move, row, source, target, width, weight)
                if sending > 0.0:
                    if width < 1.0 and t.edge_given[row] and not rounded:
                        rounded = True
                        _round(t, s, row, k - first, weight)
                    if t.narrows and _gathered(t, s, source, target) > 1:
                        _place(t, s, row, k - first, weight)
        s.edge_seconds[row] = spent
    return total(s.edge_seconds)


@inner
def _gathered(t: Any, s: Any, source: int, target: int) -> int:
    """Along how many dimensions `target` has less axes than `source`."""
    a, b, found = t.tensor_start[source], t.tensor_start[target], 0
    for d in range(t.tensor_start[source + 1] - a):
        found += 1 if axes_on(t, s, a + d) & ~axes_on(t, s, b + d) else 0
    return found


@inner
def _round(t: Any, s: Any, row: int, place: int, weight: float) -> None:
    """Price the kernel that rounds an argument to what travels of it; others round what they make.

    It runs once, whatever is made of its result.
    """
    source = t.edge_from[row]
    handled = s.local[source] / t.tensor_itemsize[source]
    spent = weight * (handled / t.rounding + t.overhead)
    moved = 1.5 * weight * s.local[source]
    note(s.journal, s.noted, LOCAL, row, place, ELEMENTS, 0, weight, moved, spent)
    s.local_seconds[row] += spent


@inner
def _place(t: Any, s: Any, row: int, place: int, weight: float) -> None:
    """Price the copies that put in place what was gathered along two dimensions at once."""
    target = t.edge_to[t.edge_to_start[row] + place]
    handled = s.local[target] / t.tensor_itemsize[target]
    spent = weight * handled / t.placing
    moved = 4.0 * weight * s.local[target]
    note(s.journal, s.noted, LOCAL, row, place, ELEMENTS, 0, weight, moved, spent)
    s.local_seconds[row] += spent


@inner
def halos(t: Any, s: Any) -> float:
    """Seconds to exchange strips with neighbours."""
    for row in range(len(t.halo_weight)):
        if not is_stale(t, s, HALOS, row):
            continue
        spent, item = 0.0, t.halo_item[row]
        axes = s.mask[item]
        if axes:
            strip = min(t.halo_part[row] * s.shards[item], 1.0) * s.local[t.halo_tensor[row]]
            mark(s.journal, s.noted, HALO, row, 0)
            spent = collective(
                t, s, COLLECTIVE_PERMUTE, axes, strip, t.halo_weight[row], NEIGHBOURS
            )
        s.halo_seconds[row] = spent
    return total(s.halo_seconds)
