"""Kernels for memory: what is alive when, and how much that is at most."""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner
from costmodel.dependencies import FEEDS, KINDS, LIVES, SUMS
from costmodel.kernelblocks import MANY
from costmodel.kernelchanges import is_stale
from costmodel.kerneljournal import BASE, COPY, FEED, LIVE, SUM, note
from costmodel.kernelmoves import same


@inner
def _hold(s: Any, held: Any, table: int, row: int, first: int, last: int, size: float) -> None:
    """Count `size` bytes over the events [first, last] instead of those `held` for the row."""
    if size > 0.0:
        note(s.journal, s.noted, table, row, 0, first, last, 1.0, size, 0.0)
    s.delta[first] += size - held[row]
    s.delta[last + 1] -= size - held[row]
    held[row] = size


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
            if s.copy_held[row] > 0.0:
                _hold(s, s.copy_held, COPY, row, s.copy_from[row], s.copy_to[row], 0.0)
            if s.leader[kind + place] != place:
                continue
            begin, end = t.copy_from[row], t.copy_to[row]
            for other in range(row + 1, last):
                if s.leader[kind + other - first] == place:
                    begin = min(begin, t.copy_from[other])
                    end = max(end, t.copy_to[other])
            s.copy_from[row], s.copy_to[row] = begin, end
            _hold(s, s.copy_held, COPY, row, begin, end, s.local[t.copy_tensor[row]])


@inner
def _add_sums(t: Any, s: Any) -> None:
    """Partial sums that are scattered live beside the result; others are summed in place.

    A result that would have been fused away is stored to be summed.
    Beside them lives what feeds a product that sends its sums to many devices block by block.
    """
    for k in range(len(t.sum_row)):
        if not is_stale(t, s, SUMS, k):
            continue
        row, size = t.sum_row[k], s.local[t.sum_tensor[k]]
        defined = s.local[t.part_defined[t.part_result_start[row]]]
        if not s.reduced[row] or (t.sum_stored[k] and size <= defined):
            size = 0.0
        _hold(s, s.sum_held, SUM, k, t.sum_at[k], t.sum_at[k], size)
    for k in range(len(t.feed_row) if t.windowed else 0):
        if not is_stale(t, s, FEEDS, k):
            continue
        row, size = t.feed_row[k], s.local[t.feed_tensor[k]]
        result = t.part_result_start[row]
        scattered = s.local[t.part_computed[result]] > s.local[t.part_defined[result]]
        if not scattered or t.axes_shards[s.reduced[row]] < MANY:
            size = 0.0
        _hold(s, s.feed_held, FEED, k, t.feed_at[k], t.feed_at[k], size)


@inner
def peak_bytes(t: Any, s: Any) -> float:
    """The most bytes alive at once on one device."""
    base, last = 0.0, len(t.event_position) - 2
    for row in range(len(t.base_tensor)):
        size = t.base_count[row] * s.local[t.base_tensor[row]]
        note(s.journal, s.noted, BASE, row, 0, 0, last, t.base_count[row], size, 0.0)
        base += size
    for row in range(len(t.live_tensor)):
        if not is_stale(t, s, LIVES, row):
            continue
        size = s.local[t.live_tensor[row]] * t.live_width[row]
        _hold(s, s.live_held, LIVE, row, t.live_from[row], t.live_to[row], size)
    _add_copies(t, s)
    _add_sums(t, s)
    peak = 0.0
    alive = 0.0
    for event in range(len(s.delta)):
        alive += s.delta[event]
        peak = max(peak, alive)
    return base + peak
