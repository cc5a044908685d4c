"""Kernels for communication: which collectives a layout implies, and what each costs."""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner
from costmodel.dependencies import EDGES, HALOS, PARTIALS
from costmodel.kernelchanges import is_stale, streamed, total
from costmodel.kerneljournal import (
    EDGE,
    HALO,
    LOCAL,
    PARTIAL,
    UNFUSED,
    Bound,
    mark,
    note,
    note_collective,
)

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVE_PERMUTE = range(5)
BYTES, ELEMENTS = int(Bound.BYTES), int(Bound.ELEMENTS)
MANY = 8
"""From so many devices on a product sends its sums block by block in both directions."""
MANY_HIDDEN, FEW_HIDDEN = 0.34, 0.6
"""The least part of that sending that multiplying has to hide, for many devices and for fewer."""


BEGUN = 1.5
"""How often each element of sums is handled where they are scattered block by block."""


@inner
def collective(t: Any, s: Any, kind: int, axes: int, size: float, weight: float) -> float:
    """Seconds of one collective over `axes`, counted `weight` times.

    `size` is the larger of what goes in and comes out on one device, in bytes.
    """
    wire = size * t.axes_wire[kind, axes]
    seconds = t.axes_alpha[kind, axes, 0] + t.axes_beta[kind, axes, 0] * size
    for k in range(1, t.axes_alpha.shape[2]):
        seconds = min(seconds, t.axes_alpha[kind, axes, k] + t.axes_beta[kind, axes, k] * size)
    seconds *= weight
    note_collective(s.journal, s.noted, kind, axes, weight, weight * wire, seconds)
    return seconds


@inner
def _axes_on(t: Any, s: Any, dim: int) -> int:
    """The axes on a dimension of a tensor, as bits."""
    item = t.dim_item[dim]
    return int(s.mask[item]) if item >= 0 else 0


@inner
def _grows(t: Any, s: Any, row: int, axes: int) -> bool:
    """Whether a dimension of a product's result that is sharded already takes more axes."""
    k = t.part_result_start[row]
    a, b = t.tensor_start[t.part_computed[k]], t.tensor_start[t.part_defined[k]]
    for d in range(t.tensor_start[t.part_computed[k] + 1] - a):
        have, want = _axes_on(t, s, a + d), _axes_on(t, s, b + d)
        if have & want and want & ~have & axes:
            return True
    return False


@inner
def _in_blocks(t: Any, s: Any, row: int, axes: int, size: float) -> bool:
    """Whether the sums of a row of partials are scattered block by block beside their product.

    Two devices have nothing to gain from it, nor four that are no line, nor has what takes much
    longer to send than to multiply. A dimension that is sharded already is scattered in one piece.
    """
    n = t.axes_shards[axes]
    if row < 0 or not t.windowed or n < 4 or (n < MANY and not t.axes_straight[axes]):
        return False
    if not t.part_product[row] or _grows(t, s, row, axes):
        return False
    multiply, unit = t.part_seconds[row], t.part_unit[row]
    for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
        multiply /= s.shards[i]
    send = t.axes_alpha[REDUCE_SCATTER, axes, 0] + t.axes_beta[REDUCE_SCATTER, axes, 0] * size
    return bool(multiply >= (FEW_HIDDEN if n < MANY else MANY_HIDDEN) * send)


@inner
def _scatter(t: Any, s: Any, row: int, axes: int, size: float, weight: float) -> float:
    """Seconds of a reduce-scatter; block by block, of n + 1/2 permutes between n devices.

    Between many devices one half of them goes each way round, at the same time.
    """
    if not _in_blocks(t, s, row, axes, size):
        return float(collective(t, s, REDUCE_SCATTER, axes, size, weight))
    block, blocks = size / t.axes_shards[axes], weight * (t.axes_shards[axes] + 0.5)
    hop, rate = t.axes_alpha[COLLECTIVE_PERMUTE, axes, 0], t.axes_beta[COLLECTIVE_PERMUTE, axes, 0]
    seconds = blocks * (hop + rate * block)
    if t.axes_shards[axes] >= MANY:
        seconds /= 2.0
    note_collective(s.journal, s.noted, REDUCE_SCATTER, axes, weight, blocks * block, seconds)
    return float(seconds)


@inner
def _changes(t: Any, s: Any, source: int, target: int) -> tuple[int, int, int]:
    """Axes that vanish, that move from one dimension to another, and that come."""
    a, b = t.tensor_start[source], t.tensor_start[target]
    lost, before, after, come = 0, 0, 0, 0
    for d in range(t.tensor_start[source + 1] - a):
        have, want = _axes_on(t, s, a + d), _axes_on(t, s, b + d)
        lost |= have & ~want
        come |= want & ~have
        before |= have
        after |= want
    return lost & ~after, lost & after, come & ~before


@inner
def _taken(t: Any, s: Any, source: int, target: int, reduced: int, row: int) -> tuple[int, int]:
    """Axes of the partial sums of a row that are scattered, and axes that are gathered in between.

    Nothing is scattered where two dimensions want it, over all axes of chips that do not, of a
    lookup over several axes, and where a dimension that is sharded already takes some axes and not
    all. A product's batch that is sharded already is gathered whole, and cut again.
    """
    a, b = t.tensor_start[source], t.tensor_start[target]
    scattered, wanting, grown, again = 0, 0, 0, 0
    batch = t.part_batch[row] if row >= 0 else 0
    for d in range(t.tensor_start[source + 1] - a):
        have, want = _axes_on(t, s, a + d), _axes_on(t, s, b + d)
        taken = want & ~have & reduced
        if taken:
            scattered |= taken
            wanting += 1
            grown |= taken if have & want else 0
            again |= have if d < batch else 0
    lookup = row >= 0 and t.part_lookup[row] and scattered & (scattered - 1)
    some = scattered != reduced and grown
    if wanting > 1 or scattered == t.summed_whole or lookup or some or again:
        scattered = 0
    return scattered, again


@inner
def reshard(
    t: Any,
    s: Any,
    source: int,
    target: int,
    reduced: int,
    row: int,
    width: float,
    weight: float,
) -> float:
    """Seconds to bring `source` to the layout of `target`.

    `reduced` are axes over which `source` holds partial sums, those of a `row` of the partials
    (or -1); `width` is how wide its elements are when they travel, relative to how they are stored.
    Slicing is free; partial sums become a reduce-scatter where `_taken` says so and an all-reduce
    elsewhere; axes that move between dimensions are an all-to-all, axes that vanish an all-gather.
    """
    gathered, moved, sliced = _changes(t, s, source, target)
    scattered, again = _taken(t, s, source, target, reduced, row)
    size = s.local[source] * width
    seconds = 0.0
    if scattered:
        seconds += _scatter(t, s, row, scattered, size, weight)
        size /= t.axes_shards[scattered]
    summed = reduced & ~scattered
    sliced &= ~scattered
    if sliced & ~summed:
        size /= t.axes_shards[sliced & ~summed]
    if summed:
        seconds += collective(t, s, ALL_REDUCE, summed, size, weight)
    if again:
        seconds += collective(t, s, ALL_GATHER, again, size * t.axes_shards[again], weight)
    if sliced & summed:
        size /= t.axes_shards[sliced & summed]
    if moved:
        seconds += collective(t, s, ALL_TO_ALL, moved, size, weight)
    if gathered:
        size *= t.axes_shards[gathered]
        seconds += collective(t, s, ALL_GATHER, gathered, size, weight)
    return seconds


@inner
def same(t: Any, s: Any, source: int, target: int) -> bool:
    """Whether two tensors of one shape are laid out alike."""
    a, b = t.tensor_start[source], t.tensor_start[target]
    for d in range(t.tensor_start[source + 1] - a):
        if _axes_on(t, s, a + d) != _axes_on(t, s, b + d):
            return False
    return True


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
def partials(t: Any, s: Any) -> float:
    """Seconds of the collectives at the results of ops; keeps the axes of partial sums."""
    for row in range(len(t.part_weight)):
        if not is_stale(t, s, PARTIALS, row):
            continue
        reduced, spent = 0, 0.0
        for k in range(t.part_item_start[row], t.part_item_start[row + 1]):
            reduced |= s.mask[t.part_item[k]]
        s.reduced[row] = reduced
        for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
            computed, defined = t.part_computed[k], t.part_defined[k]
            if reduced and _is_added(t, s, row):
                continue
            if reduced or not same(t, s, computed, defined):
                mark(s.journal, s.noted, PARTIAL, row, k - t.part_result_start[row])
                weight = t.part_weight[row]
                spent += reshard(t, s, computed, defined, reduced, row, 1.0, weight)
        s.part_seconds[row] = spent
    return total(s.part_seconds)


@inner
def unfused_sums(t: Any, s: Any) -> float:
    """Seconds to add up partial sums, or to compute from them what would have been made inside.

    A product writes its sums as it writes any result. What is scattered block by block is added to
    in memory; of the rest a pass of its own reads what the collective made, where no other does.
    """
    for row in range(len(t.part_weight)):
        if not is_stale(t, s, PARTIALS, row):
            continue
        s.stored_seconds[row] = 0.0
        if s.reduced[row]:
            for k in range(t.part_result_start[row], t.part_result_start[row + 1]):
                weight, place = t.part_weight[row], k - t.part_result_start[row]
                whole, left = s.local[t.part_computed[k]], s.local[t.part_defined[k]]
                moved = t.part_passes[row] * left
                spent, bound = moved / t.bandwidth, BYTES
                if left < whole and _in_blocks(t, s, row, s.reduced[row], whole):
                    adding, added = _adding(t, s, t.part_computed[k], s.reduced[row])
                    feeding, fed = _feeding(t, s, row)
                    spent, moved, bound = spent + adding + feeding, moved + added + fed, ELEMENTS
                if spent == 0.0:
                    continue
                moved, spent = weight * moved, weight * spent
                note(s.journal, s.noted, UNFUSED, row, place, bound, 0, weight, moved, spent)
                s.stored_seconds[row] += spent
    return total(s.stored_seconds)


@inner
def _adding(t: Any, s: Any, tensor: int, axes: int) -> tuple[float, float]:
    """Seconds to add up sums that are scattered block by block, and the bytes that they move.

    Two blocks are multiplied at a time, and added to what has come of them so far, one of them
    begins anew where it is the first: three kernels for two blocks, over all sums and a half.
    """
    size = s.local[tensor]
    handled = size / max(t.tensor_itemsize[tensor], 1.0) / t.element_rate
    moved = size * streamed(t.on_chip, size)
    launched = BEGUN * t.axes_shards[axes] * t.overhead
    return BEGUN * (handled + moved / t.bandwidth) + launched, 2.0 * BEGUN * moved


@inner
def _feeding(t: Any, s: Any, row: int) -> tuple[float, float]:
    """Seconds to make in memory what a product would compute inside itself, and bytes moved.

    All its blocks need that, so a kernel of its own makes it.
    """
    seconds, bytes_moved = 0.0, 0.0
    for k in range(t.part_feed_start[row], t.part_feed_start[row + 1]):
        tensor, count = t.part_feed[k], t.part_feed_count[k]
        size = s.local[tensor]
        moved = 2.0 * size * streamed(t.on_chip, size)
        handled = size / max(t.tensor_itemsize[tensor], 1.0)
        seconds += count * (max(handled / t.element_rate, moved / t.bandwidth) + t.overhead)
        bytes_moved += count * moved
    return seconds, bytes_moved


@inner
def is_narrow(t: Any, k: int) -> bool:
    """Whether what a use wants travels in 16 bits."""
    return bool(t.edge_to_narrow[k] > (0 if t.narrows else 1))


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
            target = t.edge_to[k]
            if same(t, s, source, target):
                continue
            known = False
            narrow = is_narrow(t, k)
            for j in range(first, last):
                if j != k and same(t, s, t.edge_to[j], target):
                    known, narrow = known or j < k, narrow and is_narrow(t, j)
            if not known:
                weight = t.edge_weight[row] * t.edge_to_trips[k]
                width = 0.5 if narrow else 1.0
                mark(s.journal, s.noted, EDGE, row, k - first)
                sending = reshard(t, s, source, target, 0, -1, width, weight)
                spent += sending
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
        found += 1 if _axes_on(t, s, a + d) & ~_axes_on(t, s, b + d) else 0
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
            spent = collective(t, s, COLLECTIVE_PERMUTE, axes, strip, t.halo_weight[row])
        s.halo_seconds[row] = spent
    return total(s.halo_seconds)
