"""Kernels for memory: what is alive when, and how much that is at most.

A compiler with memory on the chip to give away (`on_chip_buffers`) keeps there what is small and
read for the last time within `on_chip_seconds`: main memory holds what is left of that. A step has
many positions, so what lives for few of them is always counted; of the rest the part that these
seconds are of the whole step. Where collectives may not read or write there, their sides are not
part of it, and results of the program never are.

Gradients of kernels that wait to be summed do so themselves, or what they are made of stays
(`waiting`). A compiler that gathers kernels beside them (`crowded`) computes all and lets them wait
while there is memory: those of which less would stay are counted besides, up to all that there is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.jit import entry, inner
from toast.costmodel.dependencies import KINDS, LIVES, SUMS
from toast.costmodel.kernels.incremental import is_stale
from toast.costmodel.kernels.journal import (
    BASE,
    BRIEF,
    COPY,
    LASTING,
    LATE,
    LIVE,
    SUM,
    SUMMED,
    note,
)
from toast.costmodel.kernels.reshard import is_narrow, same

SOON = 64
"""For so many positions of the schedule something small may be on the chip in any step."""
PARTS = 64.0
"""Shares are whole multiples of one part in so many: bytes times a share are exact."""


@entry
def lasting_share(most: float, compute: float) -> float:
    """The part on the chip of what is small but not short-lived, in a step of `compute` seconds.

    Nothing is there for more than `most` seconds. Spans are taken to be of all lengths alike.
    """
    return np.floor(PARTS * min(most / compute, 1.0)) / PARTS if compute > 0.0 else 1.0


@inner
def _count(s: Any, held: Any, row: int, place: int, first: int, last: int, size: float) -> None:
    """Count `size` bytes at a place over the events [first, last] instead of those `held`."""
    if size != held[row, place]:
        s.delta[first, place] += size - held[row, place]
        s.delta[last + 1, place] -= size - held[row, place]
        held[row, place] = size


@inner
def _hold(
    t: Any, s: Any, held: Any, table: int, row: int,
    first: int, last: int, size: float, piece: float, stay: int,
) -> None:  # fmt: skip
    """Count `size` bytes over the events [first, last] instead of those `held` for the row.

    They may `stay` on the chip (`BRIEF`, `LASTING`, or 0) where each `piece` of them is small. What
    is held must have been allowed the same stay, or been let go first.
    """
    small = piece <= t.on_chip_piece
    if size > 0.0:
        note(s.journal, s.noted, table, row, stay if small else 0, first, last, 1.0, size, 0.0)
    _count(s, held, row, 0, first, last, size)
    if stay > 0:
        _count(s, held, row, stay, first, last, size if small else 0.0)


@inner
def _lead(t: Any, s: Any) -> None:
    """Find, for each kind of value with copies, which layouts that its uses want are the same."""
    for kind in range(len(t.kind_source)):
        if not is_stale(t, s, KINDS, kind):
            continue
        first, last = t.kind_start[kind], t.kind_start[kind + 1]
        for k in range(first, last):
            s.leader[k] = k - first
            if same(t, s, t.kind_source[kind], t.kind_tensor[k]):
                s.leader[k] = -1
                continue
            for other in range(first, k):
                if s.leader[other] == other - first and same(
                    t, s, t.kind_tensor[other], t.kind_tensor[k]
                ):
                    s.leader[k] = other - first
                    break


@inner
def _add_copies(t: Any, s: Any) -> None:
    """Uses that want one layout share one copy, alive from the first of them to the last."""
    _lead(t, s)
    for group in range(len(t.copy_kind)):
        if not is_stale(t, s, KINDS, t.copy_kind[group]):
            continue
        first, last = t.copy_start[group], t.copy_start[group + 1]
        kind = t.kind_start[t.copy_kind[group]]
        for row in range(first, last):
            place = row - first
            if s.copy_held[row, 0] > 0.0:
                for stay in (0, BRIEF, LASTING):
                    _count(s, s.copy_held, row, stay, s.copy_from[row], s.copy_to[row], 0.0)
            if s.leader[kind + place] != place:
                continue
            begin, end, narrow = t.copy_from[row], t.copy_to[row], is_narrow(t, t.copy_narrow[row])
            at, until = t.copy_begin[row], t.copy_end[row]
            for other in range(row + 1, last):
                if s.leader[kind + other - first] == place:
                    begin = min(begin, t.copy_from[other])
                    end = max(end, t.copy_to[other])
                    at = min(at, t.copy_begin[other])
                    until = max(until, t.copy_end[other])
                    narrow = narrow and is_narrow(t, t.copy_narrow[other])
            s.copy_from[row], s.copy_to[row] = begin, end
            size = s.stored[t.copy_tensor[row]] * (0.5 if narrow else 1.0)
            piece, stay = _sent(t, size), BRIEF if until - at <= SOON else LASTING
            size *= t.copy_count[group]
            _hold(t, s, s.copy_held, COPY, row, begin, end, size, piece, stay)


@inner
def _sent(t: Any, piece: float) -> float:
    """How large a piece counts that a collective reads or writes."""
    return piece if t.on_chip_sent else np.inf


@inner
def _add_sums(t: Any, s: Any) -> None:
    """Partial sums that are scattered live beside the result; others are summed in place.

    A result that would have been fused away is stored to be summed, until something is computed
    of it. What is summed behind a loop is not.
    """
    for k in range(len(t.sum_row)):
        if not is_stale(t, s, SUMS, k):
            continue
        row, whole = t.sum_row[k], s.local[t.sum_tensor[k]]
        left = s.local[t.part_defined[t.part_result_start[row]]]
        size, summed = 0.0, 0.0
        if s.reduced[row]:
            size = whole if left < whole else 0.0
            summed = 0.0 if t.sum_stored[k] or s.behind[row] else left
        at, to, count = t.sum_at[k], t.sum_to[k], t.sum_count[k]
        _hold(t, s, s.sum_held, SUM, k, at, t.sum_last[k], count * size, _sent(t, whole), BRIEF)
        piece, stay = _sent(t, summed), t.sum_stay[k]
        _hold(t, s, s.summed_held, SUMMED, k, at, to, count * summed, piece, stay)


@inner
def _stays(t: Any, s: Any, guard: int) -> bool:
    """Whether a gradient that waits does so itself, or what it is made of stays."""
    gradient, instead = guard // 2, guard % 2 == 1
    if not s.reduced[t.guard_row[gradient]]:
        return False
    made = 0.0
    for k in range(t.guard_start[gradient], t.guard_start[gradient + 1]):
        made += s.stored[t.guard_kept[k]] * t.guard_width[k]
    return bool((s.local[t.guard_tensor[gradient]] > made) == instead)


@inner
def _is_scattered(t: Any, s: Any, gradient: int) -> bool:
    """Whether the sums of a gradient are, so that kernels are gathered, beside gradients."""
    row = t.guard_row[gradient]
    left = s.local[t.part_defined[t.part_result_start[row]]]
    return bool(s.reduced[row] and left < s.local[t.guard_tensor[gradient]])


@inner
def _wait(t: Any, s: Any, row: int, size: float) -> None:
    """Count what waits, and of what need not wait itself what does where there is memory."""
    first, last, guard = t.live_from[row], t.live_to[row], t.live_guard[row]
    stays = _stays(t, s, guard)
    _hold(t, s, s.live_held, LIVE, row, first, last, size if stays else 0.0, np.inf, 0)
    late = 0.0
    if t.crowded > 0.0 and guard % 2 == 0 and not stays and _is_scattered(t, s, guard // 2):
        late = size
        note(s.journal, s.noted, LIVE, row, LATE, first, last, 1.0, size, 0.0)
    _count(s, s.live_held, row, LATE, first, last, late)


@inner
def peak_bytes(t: Any, s: Any, compute: float) -> float:
    """The most bytes that main memory holds at once on one device, in a step of so many seconds."""
    base, last = 0.0, len(t.event_position) - 2
    for row in range(len(t.base_tensor)):
        size = t.base_count[row] * s.given[t.base_tensor[row]]
        size += t.base_fetched[row] * t.on_chip_told
        note(s.journal, s.noted, BASE, row, 0, 0, last, t.base_count[row], size, 0.0)
        base += size
    for row in range(len(t.live_tensor)):
        if not is_stale(t, s, LIVES, row):
            continue
        size = s.stored[t.live_tensor[row]] * t.live_width[row]
        if t.live_guard[row] >= 0:
            _wait(t, s, row, size * t.live_count[row])
            continue
        piece, first, last = size, t.live_from[row], t.live_to[row]
        size *= t.live_count[row]
        _hold(t, s, s.live_held, LIVE, row, first, last, size, piece, t.live_stay[row])
    _add_copies(t, s)
    _add_sums(t, s)
    share = lasting_share(t.on_chip_seconds, compute)
    peak, alive, late, brief, lasting = base, base, 0.0, 0.0, 0.0
    for event in range(len(s.delta)):
        alive += s.delta[event, 0]
        late += s.delta[event, LATE]
        brief += s.delta[event, BRIEF]
        lasting += s.delta[event, LASTING]
        there = alive - min(brief + share * lasting, t.on_chip_buffers)
        peak = max(peak, there, min(there + late, t.crowded))
    return peak
