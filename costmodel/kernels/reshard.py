"""Kernels for communication: which collectives a layout implies, and what each costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.costmodel.kernels.axis_order import duration, remember, remember_taken
from toast.costmodel.kernels.combiner import SCATTERED, WHOLE, remember_sum
from toast.costmodel.kernels.incremental import axes_on, streamed, total
from toast.costmodel.kernels.journal import mark, note, note_collective
from toast.costmodel.kernels.pieces import has_pieces
from toast.costmodel.kernels.sum_order import added_to, constrain
from toast.costmodel.kernels.ways import find_way
from toast.costmodel.network.collectives import Kind
from toast.costmodel.terms.journal import (
    EDGE,
    HALO,
    LOCAL,
    PARTIAL,
    UNFUSED,
    Bound,
    CollectiveReason,
)

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVE_PERMUTE = map(int, Kind)
BYTES, ELEMENTS = int(Bound.BYTES), int(Bound.ELEMENTS)
(
    INTO_SHARDS, UNWANTED, TWO_DIMENSIONS, ALL_DEVICES, BATCH, LOOKUP, SLICED, SHARDED_ALREADY,
    SEGMENTS, _, BEHIND_LOOP, REGATHERED, GATHERED, EXCHANGED, _, NEIGHBOURS, ADDED,
    LEFT_OUT, _, TRADED, REMATERIALIZED, UNEVEN, FLATTENED, COMPLEX,
) = map(int, CollectiveReason)  # fmt: skip
PARTS_OF_COMPLEX = 2
"""The real and the imaginary part, each in a collective of its own."""


@inner
def collective(
    t: Tables, s: Scratch, kind: int, axes: int, size: float, weight: float, why: int
) -> float:
    """Seconds of one collective over `axes`, counted `weight` times, for a `CollectiveReason`.

    `size` is the larger of what goes in and comes out on one device, in bytes.
    """
    wire = size * t.mesh.wire[kind, axes]
    seconds = weight * duration(t, kind, axes, size)
    note_collective(s.journal, kind, axes, weight, weight * wire, seconds, why)
    return seconds


@inner
def same(t: Tables, s: Scratch, source: int, target: int) -> bool:
    """Whether two tensors of one shape have the same layout."""
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        if axes_on(t, s, a + d) != axes_on(t, s, b + d):
            return False
    return True


@inner
def _changes(t: Tables, s: Scratch, source: int, target: int) -> tuple[int, int, int]:
    """Axes that vanish, that move from one dimension to another, and that come."""
    a, b = t.tensors.start[source], t.tensors.start[target]
    lost, before, after, come = 0, 0, 0, 0
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        lost |= have & ~want
        come |= want & ~have
        before |= have
        after |= want
    return lost & ~after, lost & after, come & ~before


@inner
def _taken(
    t: Tables, s: Scratch, source: int, target: int, reduced: int, row: int
) -> tuple[int, int, int]:
    """Axes of a row's partial sums that are scattered, axes gathered in between, and why.

    Nothing is scattered by a compiler that makes no reduce-scatters. Nor is anything where two
    dimensions want it, over all axes of chips that do not, and of a sum that a TPU cuts slices of.
    Nor are some axes and not all, where a lookup makes the sums or a dimension that is sharded
    already takes them, or where a scatter sums over all of them along one dimension. Nor are
    matrices that cannot be cut into equal pieces, or the rows of one that a module gives dimensions
    of 1. A product's batch that is sharded already is gathered whole, and cut again.
    """
    a, b = t.tensors.start[source], t.tensors.start[target]
    scattered, wanting, grown, again = 0, 0, 0, 0
    batch = t.partial_sums.batch[row] if row >= 0 else 0
    for d in range(t.tensors.start[source + 1] - a):
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
    if not t.mesh.scattered:
        why = LEFT_OUT
    elif row >= 0 and t.partial_sums.gathered[row]:
        why = COMPLEX
    elif wanting > 1:
        why = TWO_DIMENSIONS
    elif scattered == t.mesh.summed_whole:
        why = ALL_DEVICES
    elif again:
        why = BATCH
    elif row >= 0 and t.partial_sums.cut[row] >= 0 and same(t, s, target, t.partial_sums.cut[row]):
        why = SLICED
    elif scattered != reduced and grown:
        why = SHARDED_ALREADY
    elif row >= 0 and t.partial_sums.segments[row] and _is_parted(t, s, row, scattered):
        why = SEGMENTS
    elif scattered != reduced and row >= 0 and t.partial_sums.lookup[row]:
        why = LOOKUP
    elif row >= 0 and _by_rows(t, s, target, scattered, row):
        why = FLATTENED
    elif not has_pieces(
        t, s, source, scattered, target, row >= 0 and t.partial_sums.segments[row] != 0
    ):
        why = UNEVEN
    return scattered if why == INTO_SHARDS else 0, again, why


@inner
def _is_parted(t: Tables, s: Scratch, row: int, scattered: int) -> bool:
    """Whether some axes of a dimension that a row sums over are scattered, and some are not."""
    for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
        mask = s.units.mask[t.partial_sums.item[k]]
        if mask & scattered and mask & ~scattered:
            return True
    return False


@inner
def _by_rows(t: Tables, s: Scratch, target: int, scattered: int, row: int) -> bool:
    """Whether the rows of a flattened matrix take the axes of a lookup, or several of a product."""
    rows = t.partial_sums.flattened[row]
    if rows < 0 or not axes_on(t, s, t.tensors.start[target] + rows) & scattered:
        return False
    return bool(t.partial_sums.lookup[row] or scattered & (scattered - 1))


@inner
def _is_behind(t: Tables, s: Scratch, source: int, target: int, reduced: int, row: int) -> bool:
    """Whether the part of a row's sums that is not scattered is summed behind the loop.

    The loop adds these sums up. It would add something else where they are cut or moved before.
    """
    if row < 0 or t.partial_sums.loop_trips[row] <= 1.0:
        return False
    for k in range(t.partial_sums.alike_start[row], t.partial_sums.alike_start[row + 1]):
        if not same(t, s, t.partial_sums.alike_one[k], t.partial_sums.alike_other[k]):
            return False
    gathered, moved, sliced = _changes(t, s, source, target)
    scattered, again, _ = _taken(t, s, source, target, reduced, row)
    cut = sliced & reduced & ~scattered
    return (reduced & ~scattered) != 0 and (gathered | moved | again | cut) == 0


@inner
def _move(t: Tables, s: Scratch, source: int, target: int, size: float, weight: float) -> float:
    """Seconds to bring `source`, of so many bytes, to the layout of `target`: see `ways`."""
    way, seconds = find_way(t, s, source, target), 0.0
    if way.whole:
        size *= t.mesh.shards[way.whole]
        seconds += collective(t, s, ALL_GATHER, way.whole, size, weight, REMATERIALIZED)
    size /= way.cut
    if way.exchanged:
        seconds += collective(t, s, ALL_TO_ALL, way.exchanged, size, weight, EXCHANGED)
    if way.traded:
        seconds += collective(t, s, COLLECTIVE_PERMUTE, way.traded, size, weight, TRADED)
    if way.gathered:
        size *= way.parts
        seconds += collective(t, s, ALL_GATHER, way.gathered, size, weight, GATHERED)
    return seconds


@inner
def reshard(
    t: Tables,
    s: Scratch,
    source: int,
    target: int,
    reduced: int,
    row: int,
    width: float,
    weight: float,
) -> float:
    """Seconds to bring `source` to the layout of `target`.

    `reduced` are axes over which `source` holds partial sums, those of a `row` of the partials (or
    -1); `width` is how wide its elements are when they travel, relative to how they are stored.
    Slicing is free; partial sums become a reduce-scatter where `_taken` says so and an all-reduce
    elsewhere, and of complex numbers an all-gather; axes that move between dimensions are an all-
    to-all, axes that vanish an all-gather.
    """
    size = s.tensors.local[source] * width
    if reduced == 0:
        return _move(t, s, source, target, size, weight)
    gathered, moved, sliced = _changes(t, s, source, target)
    scattered, again, why = _taken(t, s, source, target, reduced, row)
    seconds = 0.0
    if scattered:
        seconds += collective(t, s, REDUCE_SCATTER, scattered, size, weight, why)
        size /= t.mesh.shards[scattered]
    summed = reduced & ~scattered
    sliced &= ~scattered
    if sliced & ~summed:
        size /= t.mesh.shards[sliced & ~summed]
    if summed and row >= 0 and t.partial_sums.gathered[row]:
        whole = size * t.mesh.shards[summed]
        half, times = whole / PARTS_OF_COMPLEX, weight * PARTS_OF_COMPLEX
        seconds += collective(t, s, ALL_GATHER, summed, half, times, COMPLEX)
    elif summed:
        times, why = weight, UNWANTED if scattered else why
        if _is_behind(t, s, source, target, reduced, row):
            times, size = (
                weight / t.partial_sums.loop_trips[row],
                size * t.partial_sums.loop_share[row],
            )
            why = BEHIND_LOOP
        seconds += collective(t, s, ALL_REDUCE, summed, size, times, why)
    if again:
        whole = size * t.mesh.shards[again]
        seconds += collective(t, s, ALL_GATHER, again, whole, weight, REGATHERED)
    if sliced & summed:
        size /= t.mesh.shards[sliced & summed]
    if moved:
        seconds += collective(t, s, ALL_TO_ALL, moved, size, weight, EXCHANGED)
    if gathered:
        size *= t.mesh.shards[gathered]
        seconds += collective(t, s, ALL_GATHER, gathered, size, weight, GATHERED)
    return seconds


@inner
def is_added(t: Tables, s: Scratch, row: int) -> bool:
    """Whether a row's partial sums are added to those of an earlier row, and summed there.

    Sums over the same axes with as many bytes on a device are taken to have one layout. A scatter
    is summed over all axes of a dimension at once, so it is not added to what takes a part of them.
    """
    other = added_to(t, s, row)
    if other < 0 or s.partial_sums.reduced[other] != s.partial_sums.reduced[row]:
        return False
    one, two = t.partial_sums.result_start[row], t.partial_sums.result_start[other]
    made, made_there = t.partial_sums.computed[one], t.partial_sums.computed[two]
    kept, kept_there = t.partial_sums.defined[one], t.partial_sums.defined[two]
    if (
        s.tensors.local[made] != s.tensors.local[made_there]
        or s.tensors.local[kept] != s.tensors.local[kept_there]
    ):
        return False
    if t.partial_sums.segments[row] == t.partial_sums.segments[other]:
        return True
    reduced = s.partial_sums.reduced[row]
    if t.partial_sums.segments[row]:
        scattered, scatter = _taken(t, s, made_there, kept_there, reduced, other)[0], row
    else:
        scattered, scatter = _taken(t, s, made, kept, reduced, row)[0], other
    return not _is_parted(t, s, scatter, scattered)


@inner
def _remember_sums(
    t: Tables, s: Scratch, row: int, result: int, scattered: int, summed: int
) -> None:
    """Keep what `reshard` prices of a result's sums."""
    source, target = t.partial_sums.computed[result], t.partial_sums.defined[result]
    _, _, sliced = _changes(t, s, source, target)
    size = s.tensors.local[source]
    remember_sum(t, s, row, result, SCATTERED, scattered, size)
    if scattered:
        size /= t.mesh.shards[scattered]
    if sliced & ~scattered & ~summed:
        size /= t.mesh.shards[sliced & ~scattered & ~summed]
    remember_sum(t, s, row, result, WHOLE, summed, size)


@inner
def price_partial_sums(t: Tables, s: Scratch) -> float:
    """Seconds of the collectives at the results of ops; keeps the axes of partial sums."""
    for row in range(len(t.partial_sums.weight)):
        if not s.partial_sums.stale[row]:
            continue
        reduced, spent = 0, 0.0
        for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
            reduced |= s.units.mask[t.partial_sums.item[k]]
        s.partial_sums.reduced[row], s.partial_sums.behind_loop[row] = reduced, False
        for k in range(t.partial_sums.result_start[row], t.partial_sums.result_start[row + 1]):
            spent += _price_result(t, s, row, k)
            constrain(t, s, row, k)
        s.partial_sums.seconds[row] = spent
    return total(s.partial_sums.seconds)


@inner
def _price_result(t: Tables, s: Scratch, row: int, k: int) -> float:
    """Seconds of the collectives at one result of a row; keeps its reason, and what they may be."""
    computed, defined = t.partial_sums.computed[k], t.partial_sums.defined[k]
    reduced, weight = s.partial_sums.reduced[row], t.partial_sums.weight[row]
    s.axis_order.seconds[k], s.reduce_scatters.axes[k] = 0.0, 0
    s.combiner.axes[k, 0], s.combiner.axes[k, 1] = 0, 0
    s.reduce_scatters.reason[k] = UNWANTED
    if reduced and is_added(t, s, row):
        s.reduce_scatters.reason[k] = ADDED
        return 0.0
    if not reduced and same(t, s, computed, defined):
        return 0.0
    mark(s.journal, PARTIAL, row, k - t.partial_sums.result_start[row])
    spent = reshard(t, s, computed, defined, reduced, row, 1.0, weight)
    behind = _is_behind(t, s, computed, defined, reduced, row)
    whole = s.tensors.local[computed] == s.tensors.local[defined]
    s.partial_sums.behind_loop[row] = whole and behind
    remember(t, s, k, row, computed, defined, 1.0, weight)
    scattered, _, why = _taken(t, s, computed, defined, reduced, row)
    s.reduce_scatters.reason[k] = why
    remember_taken(t, s, k, row, reduced, s.tensors.local[computed])
    if t.partial_sums.combined_in[row] >= 0 and not behind:
        _remember_sums(t, s, row, k, scattered, reduced & ~scattered)
    return spent


@inner
def price_unfused_sums(t: Tables, s: Scratch) -> float:
    """Seconds to compute from sums over devices what a product would have made inside.

    A product writes its sums as it writes any result; a pass of its own reads what the collective
    made of them, where no other does: it takes the time of any pass over what it moves, and a
    launch. What every device gathered it adds up.
    """
    for row in range(len(t.partial_sums.weight)):
        if not s.partial_sums.stale[row]:
            continue
        s.partial_sums.unfused_seconds[row] = _adding_gathered(t, s, row)
        if s.partial_sums.reduced[row] and not s.partial_sums.behind_loop[row]:
            for k in range(t.partial_sums.result_start[row], t.partial_sums.result_start[row + 1]):
                made, passes = t.partial_sums.defined[k], t.partial_sums.passes[row]
                size, stored = passes * s.tensors.local[made], s.tensors.stored[made]
                if size == 0.0:
                    continue
                moved = size * streamed(t.chip.on_chip, t.chip.streamed_from, stored)
                numbers = passes * stored / max(t.tensors.itemsize[made], 1.0)
                fetching, handling = moved / t.chip.bandwidth, numbers * t.chip.each_element
                bound = BYTES if fetching >= handling else ELEMENTS
                weight, place = t.partial_sums.weight[row], k - t.partial_sums.result_start[row]
                spent = weight * (max(fetching, handling) + t.chip.overhead)
                note(s.journal, UNFUSED, row, place, bound, 0, weight, weight * moved, spent)
                s.partial_sums.unfused_seconds[row] += spent
    return total(s.partial_sums.unfused_seconds)


@inner
def _adding_gathered(t: Tables, s: Scratch, row: int) -> float:
    """Seconds to add up the partial sums of all devices that each of them has gathered."""
    spent = 0.0
    if t.partial_sums.gathered[row] and s.partial_sums.reduced[row]:
        for k in range(t.partial_sums.result_start[row], t.partial_sums.result_start[row + 1]):
            weight, place = t.partial_sums.weight[row], k - t.partial_sums.result_start[row]
            moved = gathered_bytes(t, s, row, s.tensors.local[t.partial_sums.computed[k]])
            numbers = moved / max(t.tensors.itemsize[t.partial_sums.computed[k]], 1.0)
            each = weight * numbers * PARTS_OF_COMPLEX * t.chip.each_reduced
            note(s.journal, UNFUSED, row, place, ELEMENTS, 0, weight, weight * moved, each)
            spent += each
    return spent


@inner
def gathered_bytes(t: Tables, s: Scratch, row: int, size: float) -> float:
    """Bytes of the partial sums of all devices, if each of them gathers those of a row."""
    if not t.partial_sums.gathered[row] or not s.partial_sums.reduced[row]:
        return 0.0
    return float(size * t.mesh.shards[s.partial_sums.reduced[row]])


@inner
def is_narrow(t: Tables, width: int) -> bool:
    """Whether what a use wants in this width travels in 16 bits."""
    return bool(width > (0 if t.chip.narrows else 1))


@inner
def price_reshards(t: Tables, s: Scratch) -> float:
    """Seconds to bring values to the layouts that their uses want, each layout once.

    A TPU sends an f32 that only products read in the 16 bits that its matrix unit takes. Every
    compiler sends in 16 bits what is narrowed behind a concatenation.
    """
    for row in range(len(t.reshards.weight)):
        if not s.reshards.stale[row]:
            continue
        spent, source = 0.0, t.reshards.source[row]
        first, last = t.reshards.target_start[row], t.reshards.target_start[row + 1]
        s.reshards.local_seconds[row], rounded = 0.0, False
        for k in range(first, last):
            target, move = t.reshards.target[k], len(t.partial_sums.computed) + k
            s.axis_order.seconds[move] = 0.0
            if same(t, s, source, target):
                continue
            known = False
            narrow = is_narrow(t, t.reshards.target_narrow[k])
            for j in range(first, last):
                if j != k and same(t, s, t.reshards.target[j], target):
                    known, narrow = (
                        known or j < k,
                        narrow and is_narrow(t, t.reshards.target_narrow[j]),
                    )
            if not known:
                weight = t.reshards.weight[row] * t.reshards.target_trips[k]
                width = 0.5 if narrow else 1.0
                mark(s.journal, EDGE, row, k - first)
                sending = reshard(t, s, source, target, 0, -1, width, weight)
                spent += sending
                remember(t, s, move, row, source, target, width, weight)
                if sending > 0.0 and width < 1.0 and t.reshards.given[row] and not rounded:
                    rounded = True
                    _round(t, s, row, k - first, weight)
        s.reshards.seconds[row] = spent
    return total(s.reshards.seconds)


@inner
def _round(t: Tables, s: Scratch, row: int, place: int, weight: float) -> None:
    """Price the fusion that rounds an argument to what travels of it; others round what they make.

    It runs once, whatever is made of its result.
    """
    source = t.reshards.source[row]
    handled = s.tensors.local[source] / t.tensors.itemsize[source]
    spent = weight * (handled / t.chip.element_rate + t.chip.overhead)
    # 32 bits are read and 16 written
    moved = 1.5 * weight * s.tensors.local[source]
    note(s.journal, LOCAL, row, place, ELEMENTS, 0, weight, moved, spent)
    s.reshards.local_seconds[row] += spent


@inner
def price_halos(t: Tables, s: Scratch) -> float:
    """Seconds to exchange strips with neighbours."""
    for row in range(len(t.halos.weight)):
        if not s.halos.stale[row]:
            continue
        spent, item = 0.0, t.halos.item[row]
        axes = s.units.mask[item]
        if axes:
            strip = (
                min(t.halos.part[row] * s.units.shards[item], 1.0)
                * s.tensors.local[t.halos.tensor[row]]
            )
            mark(s.journal, HALO, row, 0)
            weight = t.halos.weight[row]
            spent = collective(t, s, COLLECTIVE_PERMUTE, axes, strip, weight, NEIGHBOURS)
        s.halos.seconds[row] = spent
    return total(s.halos.seconds)
