"""Kernels for memory: what is alive when, and how much that is at most.

A compiler with memory on the chip to give away (`on_chip_buffers`) keeps there what is small and
read for the last time within `on_chip_seconds`: main memory holds what is left of that. Partial
sums that are scattered at once are always counted; of the rest the part that these seconds are of
the whole step. Operands and results of collectives are there only where the compiler allows it, and
results of the program never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats
from toast.costmodel.kernels.combiner import late_bytes
from toast.costmodel.kernels.incremental import (
    groups_apart,
    has_one,
    in_blocks,
    in_rows,
    sums_inside,
)
from toast.costmodel.kernels.journal import note
from toast.costmodel.kernels.reshard import gathered_bytes, is_added, is_narrow, same
from toast.costmodel.kernels.sum_order import AXIS_ORDER, SCATTERED
from toast.costmodel.program.lookups import (
    BLOCKED,
    BY_ROW,
    COPIED,
    GIVEN,
    GROUPED,
    INSTEAD,
    LEFT,
    TILED,
    TURNED,
    UNCUT,
    WHOLE,
)
from toast.costmodel.terms.journal import (
    AGAIN,
    BASE,
    BRIEF,
    COPY,
    LASTING,
    LIVE,
    RECOMPUTED,
    SUM,
    SUMMED,
    Bound,
)

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

BYTES = int(Bound.BYTES)
NEVER = 1 << 62
"""Behind all events."""
PARTS = 64.0
"""Shares are whole multiples of one part in so many: bytes times a share are exact.

No fact of a compiler: with shares of any other fraction a timeline that is kept from state to state
would round otherwise than one that is made anew.
"""


@entry
def lasting_share(most: float, compute: float) -> float:
    """The part on the chip of what is small but not short-lived, in a step of `compute` seconds.

    Nothing is there for more than `most` seconds. Spans are assumed to have each length equally
    often.
    """
    return np.floor(PARTS * min(most / compute, 1.0)) / PARTS if compute > 0.0 else 1.0


@inner
def _count(
    s: Scratch, held: Floats, row: int, place: int, first: int, last: int, size: float
) -> None:
    """Count `size` bytes at a place over the events [first, last] instead of those `held`."""
    if size != held[row, place]:
        s.schedule.delta[first, place] += size - held[row, place]
        s.schedule.delta[last + 1, place] -= size - held[row, place]
        held[row, place] = size


@inner
def _hold(
    t: Tables, s: Scratch, held: Floats, table: int, row: int,
    first: int, last: int, size: float, piece: float, stay: int,
) -> None:  # fmt: skip
    """Count `size` bytes over the events [first, last] instead of those `held` for the row.

    They may `stay` on the chip (`BRIEF`, `LASTING`, or 0) where each `piece` of them fits. What
    is held must have been allowed the same stay, or been let go first.
    """
    fits = piece <= t.chip.on_chip_buffers
    if size > 0.0:
        note(s.journal, table, row, stay if fits else 0, first, last, 1.0, size, 0.0)
    _count(s, held, row, 0, first, last, size)
    if stay > 0:
        _count(s, held, row, stay, first, last, size if fits else 0.0)


@inner
def _lead(t: Tables, s: Scratch) -> None:
    """Find, for each kind of value with copies, which layouts that its uses want are the same."""
    for kind in range(len(t.copies.kind_source)):
        if not s.copies.stale[kind]:
            continue
        first, last = t.copies.kind_start[kind], t.copies.kind_start[kind + 1]
        for k in range(first, last):
            s.copies.leader[k] = k - first
            if same(t, s, t.copies.kind_source[kind], t.copies.kind_tensor[k]):
                s.copies.leader[k] = -1
                continue
            for other in range(first, k):
                if s.copies.leader[other] == other - first and same(
                    t, s, t.copies.kind_tensor[other], t.copies.kind_tensor[k]
                ):
                    s.copies.leader[k] = other - first
                    break


@inner
def _add_copies(t: Tables, s: Scratch) -> None:
    """Uses that want one layout share one copy, alive from the first of them to the last."""
    _lead(t, s)
    for group in range(len(t.copies.kind)):
        if not s.copies.stale[t.copies.kind[group]]:
            continue
        first, last = t.copies.start[group], t.copies.start[group + 1]
        kind = t.copies.kind_start[t.copies.kind[group]]
        for row in range(first, last):
            _forget_reads(s, row)
        for row in range(first, last):
            place = row - first
            if s.copies.held[row, 0] > 0.0:
                _forget_copy(s, row)
            if s.copies.leader[kind + place] != place:
                continue
            begin, end, narrow = (
                t.copies.first[row],
                t.copies.last[row],
                is_narrow(t, t.copies.narrow[row]),
            )
            again = t.copies.gap_first[row] <= t.copies.gap_last[row]
            for other in range(row + 1, last):
                if s.copies.leader[kind + other - first] == place:
                    again = t.copies.there[group]
                    begin = min(begin, t.copies.first[other])
                    end = max(end, t.copies.last[other])
                    narrow = narrow and is_narrow(t, t.copies.narrow[other])
            s.copies.first[row], s.copies.last[row] = begin, end
            size = s.tensors.stored[t.copies.tensor[row]] * (0.5 if narrow else 1.0)
            again = again and size >= max(t.chip.recomputed_piece, 1.0)
            piece = _sent(t, size)
            size *= t.copies.times[group]
            _hold(t, s, s.copies.held, COPY, row, begin, end, size, piece, LASTING)
            if again:
                _count(s, s.copies.held, row, AGAIN, begin, end, size)
                _need(t, s, kind, (first, last), place, begin, size)


@inner
def _need(
    t: Tables, s: Scratch, kind: int, rows: tuple[int, int], place: int, begin: int, size: float
) -> None:
    """Take from what can be let go of, of a copy there from event `begin` on, what is read.

    The copies among `rows` that share this one are each read before their gap and behind it. These
    spans are cut where they overlap, so that none is counted twice.
    """
    reach, start, number = begin - 1, -1, -1
    while True:
        least, chosen = NEVER, -1
        for row in range(rows[0], rows[1]):
            if s.copies.leader[kind + row - rows[0]] != place:
                continue
            for side in range(2):
                here, this = t.copies.gap_last[row] + 1 if side else t.copies.first[row], 2 * row
                this += side
                if (here > start or (here == start and this > number)) and here < least:
                    least, chosen = here, this
        if chosen < 0:
            return
        start, number = least, chosen
        row = chosen // 2
        last = t.copies.last[row] if chosen % 2 else t.copies.gap_first[row] - 1
        first = max(start, reach + 1)
        if first <= last:
            _read(s, row, chosen % 2, first, last, size)
            reach = last


@inner
def _read(s: Scratch, row: int, side: int, first: int, last: int, size: float) -> None:
    """Count `size` bytes of a copy as read over the events [first, last], and not let go of."""
    s.schedule.delta[first, AGAIN] -= size
    s.schedule.delta[last + 1, AGAIN] += size
    s.copies.read_first[row, side], s.copies.read_last[row, side] = first, last
    s.copies.read[row, side] = size


@inner
def _forget_copy(s: Scratch, row: int) -> None:
    """Let go of all that is counted of a copy."""
    first, last = s.copies.first[row], s.copies.last[row]
    for stay in (0, LASTING, AGAIN):
        _count(s, s.copies.held, row, stay, first, last, 0.0)


@inner
def _forget_reads(s: Scratch, row: int) -> None:
    """Forget the spans over which a copy is read."""
    for side in range(2):
        if s.copies.read[row, side] > 0.0:
            first, last = s.copies.read_first[row, side], s.copies.read_last[row, side]
            _read(s, row, side, first, last, -s.copies.read[row, side])
            s.copies.read[row, side] = 0.0


@inner
def _sent(t: Tables, piece: float) -> float:
    """How large a piece counts that a collective reads or writes."""
    return piece if t.chip.on_chip_sent else np.inf


@inner
def _is_waiting(t: Tables, s: Scratch, k: int) -> bool:
    """Whether partial sums are added to others, or others to them, before they are summed."""
    return _is_joined(t, s, t.sums.row[k], t.sums.mate[k], t.sums.scattered_mate[k])


@inner
def _is_joined(t: Tables, s: Scratch, row: int, mate: int, scattered: int) -> bool:
    """The same of a row of partial sums, and the rows that are added to it."""
    joined = (mate >= 0 and is_added(t, s, mate)) or (scattered >= 0 and is_added(t, s, scattered))
    return bool(joined or is_added(t, s, row))


@inner
def _is_multiplied_before(t: Tables, s: Scratch, k: int) -> bool:
    """Whether the product that a row waits for is made by itself, to be summed over devices."""
    row = t.live_ranges.unsummed[k]
    if row < 0 or not s.partial_sums.reduced[row]:
        return False
    return not _is_joined(t, s, row, t.live_ranges.mate[k], t.live_ranges.scattered_mate[k])


@inner
def _hold_sum(t: Tables, s: Scratch, k: int, size: float, piece: float) -> None:
    """Count partial sums while they are there, instead of those that are held."""
    first, last, there = t.sums.first[k], t.sums.last[k], BRIEF
    if size > 0.0 and _is_waiting(t, s, k):
        first, last, there = t.sums.wait_first[k], t.sums.wait_last[k], LASTING
    for stay in (0, BRIEF, LASTING):
        _count(s, s.sums.held, k, stay, s.sums.held_first[k], s.sums.held_last[k], 0.0)
    s.sums.held_first[k], s.sums.held_last[k] = first, last
    _hold(t, s, s.sums.held, SUM, k, first, last, size, piece, there)


@inner
def _is_beside(t: Tables, s: Scratch, k: int, whole: float) -> bool:
    """Whether devices keep what they sum whole beside their parts, which were added in place."""
    updates = t.sums.updates[k]
    if updates < 0 or _is_waiting(t, s, k):
        return False
    reason = s.reduce_scatters.reason[t.partial_sums.result_start[t.sums.row[k]]]
    few = s.tensors.local[updates] < t.chip.scattered_in_place * whole
    return bool(few and reason != SCATTERED and reason != AXIS_ORDER)


@inner
def _add_sums(t: Tables, s: Scratch) -> None:
    """Partial sums that are scattered live beside the result; others are summed in place.

    But not over what was itself added in place. A result that would have been fused away is stored
    to be summed, until something is computed of it. What is summed behind a loop is not. What is
    added to other partial sums first stays as it is until then. What is gathered is there whole.
    """
    for k in range(len(t.sums.row)):
        if not s.sums.stale[k]:
            continue
        row, whole = t.sums.row[k], s.tensors.local[t.sums.tensor[k]]
        left = s.tensors.local[t.partial_sums.defined[t.partial_sums.result_start[row]]]
        size, beside, summed = 0.0, 0.0, 0.0
        if s.partial_sums.reduced[row]:
            size = max(gathered_bytes(t, s, row, whole), whole if left < whole else 0.0)
            beside = whole if _is_beside(t, s, k, whole) else 0.0
            summed = 0.0 if t.sums.stored[k] or s.partial_sums.behind_loop[row] else left
        at, last, to = t.sums.first[k], t.sums.last[k], t.sums.until[k]
        count, piece = t.sums.times[k], _sent(t, whole)
        _hold_sum(t, s, k, count * size, piece)
        _hold(t, s, s.sums.beside_held, SUM, k, at, last, count * beside, piece, BRIEF)
        piece = _sent(t, summed)
        _hold(t, s, s.sums.summed_held, SUMMED, k, at, to, count * summed, piece, LASTING)


@inner
def _add_late_sums(t: Tables, s: Scratch) -> None:
    """What is sent with the last sums of the step waits for these, and its update with it."""
    for k in range(len(t.sums.row)):
        size, row = 0.0, t.sums.row[k]
        if t.partial_sums.combined_in[row] == 0 and s.partial_sums.reduced[row]:
            size = t.sums.times[k] * late_bytes(t, s, t.partial_sums.result_start[row])
        first, last = t.sums.late_first[k], t.sums.late_last[k]
        if first <= last:
            piece = _sent(t, size / max(1.0, t.sums.times[k]))
            _hold(t, s, s.sums.late_held, SUMMED, k, first, last, size, piece, LASTING)


@inner
def _lying(t: Tables, s: Scratch, row: int) -> float:
    """The bytes of the tensor of a row, as it lies in memory."""
    tensor, lies = t.live_ranges.tensor[row], t.live_ranges.lies[row]
    size = float(s.tensors.stored[tensor])
    if lies in (TILED, UNCUT):
        return size if lies == TILED or has_one(t, s, tensor) else 0.0
    if lies == WHOLE:
        return _whole(t, tensor)
    if lies in (GIVEN, COPIED):
        given = float(s.tensors.given[tensor])
        return given if lies == GIVEN else size if size > given else 0.0
    if lies in (BLOCKED, GROUPED, INSTEAD):
        return size * _image_part(t, s, tensor, lies)
    rows = in_rows(t, s, tensor, lies != BY_ROW)
    if lies == LEFT:
        return size if rows > size else 0.0
    return 0.0 if lies == TURNED and rows <= size else rows


@inner
def _image_part(t: Tables, s: Scratch, tensor: int, lies: int) -> float:
    """How many times its own room an image takes besides, or with its groups apart."""
    if lies == BLOCKED:
        image = t.tensors.image[tensor, 0] >= 0
        return 1.0 if image and in_blocks(t, s, tensor) > 0.0 else 0.0
    apart = groups_apart(t, s, tensor)[0]
    return float(apart if lies == GROUPED else max(apart - 1.0, 0.0))


@inner
def _whole(t: Tables, tensor: int) -> float:
    """The bytes of a tensor on all devices together."""
    size = t.tensors.itemsize[tensor]
    for d in range(t.tensors.start[tensor], t.tensors.start[tensor + 1]):
        size *= t.tensors.dim_size[d]
    return float(size)


@inner
def find_peaks(t: Tables, s: Scratch, compute: float) -> None:
    """The most bytes that main memory holds at once on one device, in a step of so many seconds.

    With room for all, and where all that can be computed again is let go of.
    """
    base, last = 0.0, len(t.schedule.position) - 2
    for row in range(len(t.arguments.tensor)):
        size = t.arguments.times[row] * s.tensors.given[t.arguments.tensor[row]]
        size += t.arguments.fetched[row] * t.chip.on_chip_table_bytes
        note(s.journal, BASE, row, 0, 0, last, t.arguments.times[row], size, 0.0)
        base += size
    for row in range(len(t.live_ranges.tensor)):
        if not s.live_ranges.stale[row]:
            continue
        size = _lying(t, s, row) * t.live_ranges.width[row]
        piece, first, last = size, t.live_ranges.first[row], t.live_ranges.last[row]
        inside = sums_inside(t, s, t.live_ranges.within[row])
        there = not (inside or _is_multiplied_before(t, s, row))
        size *= t.live_ranges.times[row] if there else 0.0
        if t.live_ranges.stay[row] == AGAIN:
            size *= t.live_ranges.part[row] if piece >= t.chip.recomputed_piece else 0.0
            _count(s, s.live_ranges.held, row, AGAIN, first, last, size)
            continue
        _hold(
            t, s, s.live_ranges.held, LIVE, row, first, last, size, piece, t.live_ranges.stay[row]
        )
    _add_copies(t, s)
    _add_sums(t, s)
    _add_late_sums(t, s)
    share = lasting_share(t.chip.on_chip_seconds, compute)
    peak, alive, brief, lasting = base, base, 0.0, 0.0
    pressed, again = base, 0.0
    for event in range(len(s.schedule.delta)):
        alive += s.schedule.delta[event, 0]
        brief += s.schedule.delta[event, BRIEF]
        lasting += s.schedule.delta[event, LASTING]
        again += s.schedule.delta[event, AGAIN]
        there = alive - min(brief + share * lasting, t.chip.on_chip_buffers)
        peak = max(peak, there)
        pressed = max(pressed, there - again)
    s.schedule.peaks[0], s.schedule.peaks[1], s.schedule.peaks[2] = peak, pressed, share


@inner
def squeeze(t: Tables, s: Scratch) -> tuple[float, float]:
    """Bytes that the compiler lays out, and the seconds that it takes to do with no more.

    What has room is left as it is. Where the device has less memory than that, the compiler spares
    what is missing, as far as it can. It computes that again, which takes at least as long as
    writing it.
    """
    room, pressed = s.schedule.peaks[0], s.schedule.peaks[1]
    laid_out = min(room, max(pressed, t.chip.memory))
    spared = room - laid_out
    spent = spared / t.chip.bandwidth
    if spared > 0.0:
        note(s.journal, RECOMPUTED, 0, 0, BYTES, 0, 1.0, spared, spent)
    return laid_out, spent
