"""Kernels for memory: what is alive when, and how much that is at most."""

from __future__ import annotations

from typing import Any

from numba import njit

from costmodel.kerneljournal import BASE, COPY, FEED, LIVE, SUM, note
from costmodel.kernelmoves import MANY, same


@njit(cache=True, nogil=True)
def _hold(s: Any, table: int, row: int, first: int, last: int, size: float) -> None:
    """Count `size` bytes over the events [first, last]."""
    note(s.journal, s.noted, table, row, 0, first, last, 1.0, size, 0.0)
    s.delta[first] += size
    s.delta[last + 1] -= size


@njit(cache=True, nogil=True)
def _lead(t: Any, s: Any) -> None:
    """Find, for each kind of value with copies, which layouts that its uses want are the same."""
    for kind in range(len(t.kind_source)):
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


@njit(cache=True, nogil=True)
def _add_copies(t: Any, s: Any) -> None:
    """Uses that want one layout share one copy, alive from the first of them to the last."""
    _lead(t, s)
    for group in range(len(t.copy_kind)):
        first, last = t.copy_start[group], t.copy_start[group + 1]
        kind = t.kind_start[t.copy_kind[group]]
        for row in range(first, last):
            place = row - first
            if s.leader[kind + place] != place:
                continue
            begin, end = t.copy_from[row], t.copy_to[row]
            for other in range(row + 1, last):
                if s.leader[kind + other - first] == place:
                    begin = min(begin, t.copy_from[other])
                    end = max(end, t.copy_to[other])
            _hold(s, COPY, row, begin, end, s.local[t.copy_tensor[row]])


@njit(cache=True, nogil=True)
def _add_sums(t: Any, s: Any) -> None:
    """Partial sums that are scattered live beside the result; others are summed in place.

    A result that would have been fused away is stored to be summed.
    Beside them lives what feeds a product that sends its sums to many devices block by block.
    """
    for k in range(len(t.sum_row)):
        row = t.sum_row[k]
        if not s.reduced[row]:
            continue
        size = s.local[t.sum_tensor[k]]
        if not t.sum_stored[k] or size > s.local[t.part_defined[t.part_result_start[row]]]:
            _hold(s, SUM, k, t.sum_at[k], t.sum_at[k], size)
    for k in range(len(t.feed_row) if t.windowed else 0):
        row = t.feed_row[k]
        if t.axes_shards[s.reduced[row]] < MANY:
            continue
        result = t.part_result_start[row]
        if s.local[t.part_computed[result]] > s.local[t.part_defined[result]]:
            _hold(s, FEED, k, t.feed_at[k], t.feed_at[k], s.local[t.feed_tensor[k]])


@njit(cache=True, nogil=True)
def peak_bytes(t: Any, s: Any) -> float:
    """The most bytes alive at once on one device."""
    base, last = 0.0, len(t.event_position) - 2
    for row in range(len(t.base_tensor)):
        size = t.base_count[row] * s.local[t.base_tensor[row]]
        note(s.journal, s.noted, BASE, row, 0, 0, last, t.base_count[row], size, 0.0)
        base += size
    s.delta[:] = 0.0
    for row in range(len(t.live_tensor)):
        size = s.local[t.live_tensor[row]] * t.live_width[row]
        _hold(s, LIVE, row, t.live_from[row], t.live_to[row], size)
    _add_copies(t, s)
    _add_sums(t, s)
    peak = 0.0
    alive = 0.0
    for event in range(len(s.delta)):
        alive += s.delta[event]
        peak = max(peak, alive)
    return base + peak
