"""Live ranges as columns of the tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.program import Ints
from toast.costmodel.kernels.journal import BRIEF, LASTING
from toast.costmodel.kernels.memory import SOON
from toast.costmodel.program.arrays import floats, ints, spans, starts
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.terms.buffer_assignment import Copies, Intervals, Sums
from toast.costmodel.terms.live_ranges import Guards, Held


def memory_columns(intervals: Intervals) -> dict[str, Any]:
    """The columns of `Tables` that memory is priced by, between events."""
    begins = (intervals.live.first, intervals.copies.first, intervals.sums.at)
    events = np.unique(np.concatenate([[0], *begins]))
    bounds = np.append(events, intervals.positions)
    return {
        "base_tensor": ints(list(intervals.base)),
        "base_count": floats(list(intervals.base.values())),
        "base_fetched": floats([intervals.fetched[tensor] for tensor in intervals.base]),
        "event_position": bounds,
        **_live_columns(intervals.live, events, bounds),
        **_guard_columns(intervals.guards),
        **_sum_columns(intervals.sums, events, bounds),
        **_copy_columns(intervals.copies, events, bounds),
    }


def _live_columns(live: Held, events: Ints, bounds: Ints) -> dict[str, Any]:
    """Buffers."""
    first, last = _at(events, live.first), _at(events, live.last)
    return {
        "live_tensor": live.tensor,
        "live_from": first,
        "live_to": last,
        "live_width": live.width,
        "live_count": np.ones(len(first)),
        "live_stay": _stay(bounds, first, last) * live.inner,
        "live_guard": live.guard,
    }


def _guard_columns(guards: Guards) -> dict[str, Any]:
    """Gradients that wait."""
    kept = [pair for row in guards.kept for pair in row]
    return {
        "guard_row": guards.row,
        "guard_tensor": guards.tensor,
        "guard_start": starts(guards.kept),
        "guard_kept": ints([tensor for tensor, _ in kept]),
        "guard_width": floats([width for _, width in kept]),
    }


def _sum_columns(sums: Sums, events: Ints, bounds: Ints) -> dict[str, Any]:
    at, to = _at(events, sums.at), _at(events, sums.to)
    return {
        "sum_row": sums.row,
        "sum_tensor": sums.tensor,
        "sum_at": at,
        "sum_last": at,
        "sum_to": to,
        "sum_count": np.ones(len(at)),
        "sum_stay": _stay(bounds, at, to),
        "sum_stored": sums.stored.astype(np.int64),
    }


def _copy_columns(copies: Copies, events: Ints, bounds: Ints) -> dict[str, Any]:
    first, last = _at(events, copies.first), _at(events, copies.last)
    wanted, _ = distinct(copies.start, copies.tensor)
    kind, distinct_kinds = distinct_rows(copies.source, wanted)
    counts = np.diff(copies.start)[distinct_kinds]
    return {
        "kind_source": copies.source[distinct_kinds],
        "kind_start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "kind_tensor": copies.tensor[spans(copies.start[distinct_kinds], counts)],
        "copy_kind": kind,
        "copy_count": np.ones(len(kind)),
        "copy_start": copies.start,
        "copy_tensor": copies.tensor,
        "copy_from": first,
        "copy_to": last,
        "copy_begin": bounds[first],
        "copy_end": bounds[last + 1],
        "copy_narrow": copies.width,
    }


def _stay(bounds: Ints, first: Ints, last: Ints) -> Ints:
    """As what it may be on the chip what is there from one event to another."""
    return np.where(bounds[last + 1] - bounds[first] <= SOON, BRIEF, LASTING)


def _at(events: Ints, positions: Ints) -> Ints:
    """The last event at or before each position: only where something begins can a peak be."""
    found = np.searchsorted(events, positions, side="right") - 1
    return np.asarray(found, dtype=np.int64)
