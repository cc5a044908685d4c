"""Live ranges as columns of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.program import Ints
from costmodel.columns import flat, floats, ints, starts
from costmodel.liveness import Copy, Intervals


def memory_columns(intervals: Intervals) -> dict[str, Any]:
    """The columns of `Tables` that memory is priced by, between events."""
    live = [*intervals.live.values(), *(held for _, held in intervals.beside)]
    copies = intervals.copies
    sums, feeds = intervals.sums.values(), intervals.feeds.values()
    wanted = [row for _, rows in copies for row in rows]
    moments = [*sums, *feeds]
    begins = [
        *(row[1] for row in live),
        *(row[1] for row in wanted),
        *(row[2] for row in moments),
    ]
    events = np.unique(ints([0, *begins]))
    classes = {row: number for number, row in enumerate(dict.fromkeys(map(_layouts, copies)))}
    return {
        "base_tensor": ints(list(intervals.base)),
        "base_count": floats(list(intervals.base.values())),
        "live_tensor": ints([row[0] for row in live]),
        "live_from": _at(events, [row[1] for row in live]),
        "live_to": _at(events, [row[2] for row in live]),
        "live_width": floats([row[3] for row in live]),
        "sum_row": ints([row[0] for row in sums]),
        "sum_tensor": ints([row[1] for row in sums]),
        "sum_at": _at(events, [row[2] for row in sums]),
        "sum_stored": ints([row[3] for row in sums]),
        "feed_row": ints([row[0] for row in feeds]),
        "feed_tensor": ints([row[1] for row in feeds]),
        "feed_at": _at(events, [row[2] for row in feeds]),
        "kind_source": ints([source for source, _ in classes]),
        "kind_start": starts([tensors for _, tensors in classes]),
        "kind_tensor": flat([tensors for _, tensors in classes]),
        "copy_kind": ints([classes[_layouts(row)] for row in copies]),
        "copy_count": np.ones(len(copies)),
        "copy_start": starts([rows for _, rows in copies]),
        "copy_tensor": ints([row[0] for row in wanted]),
        "copy_from": _at(events, [row[1] for row in wanted]),
        "copy_to": _at(events, [row[2] for row in wanted]),
        "event_position": np.append(events, intervals.positions),
    }


def _layouts(copy: Copy) -> tuple[int, tuple[int, ...]]:
    source, wanted = copy
    return source, tuple(tensor for tensor, _, _ in wanted)


def _at(events: Ints, positions: Sequence[int]) -> Ints:
    """The last event at or before each position: only where something begins can a peak be."""
    found = np.searchsorted(events, ints(positions), side="right") - 1
    return np.asarray(found, dtype=np.int64)
