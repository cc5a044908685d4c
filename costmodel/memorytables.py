"""Live ranges as columns of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.program import Ints
from costmodel.columns import flat, floats, ints, starts
from costmodel.kernelmemory import SOON
from costmodel.liveness import Copy, Intervals


def memory_columns(intervals: Intervals) -> dict[str, Any]:
    """The columns of `Tables` that memory is priced by, between events."""
    live = [*intervals.live.values(), *(held for _, held in intervals.beside)]
    inner = np.zeros(len(live), dtype=np.bool_)
    inner[: len(intervals.live)] = [v not in intervals.returned for v in intervals.live]
    copies = intervals.copies
    sums = intervals.sums.values()
    wanted = [row for _, rows in copies for row in rows]
    begins = [row[1] for row in live] + [row[1] for row in wanted]
    begins += [row[2] for row in sums]
    events = np.unique(ints([0, *begins]))
    bounds = np.append(events, intervals.positions)
    live_from, live_to = (
        _at(events, [row[1] for row in live]),
        _at(events, [row[2] for row in live]),
    )
    copy_from, copy_to = (_at(events, [row[k] for row in wanted]) for k in (1, 2))
    sum_at, sum_to = _at(events, [row[2] for row in sums]), _at(events, [row[3] for row in sums])
    classes = {row: number for number, row in enumerate(dict.fromkeys(map(_layouts, copies)))}
    return {
        "base_tensor": ints(list(intervals.base)),
        "base_count": floats(list(intervals.base.values())),
        "live_tensor": ints([row[0] for row in live]),
        "live_from": live_from,
        "live_to": live_to,
        "live_width": floats([row[3] for row in live]),
        "live_count": np.ones(len(live)),
        "live_short": _short(bounds, live_from, live_to) & inner,
        "sum_row": ints([row[0] for row in sums]),
        "sum_tensor": ints([row[1] for row in sums]),
        "sum_at": sum_at,
        "sum_last": sum_at,
        "sum_to": sum_to,
        "sum_count": np.ones(len(sums)),
        "sum_short": _short(bounds, sum_at, sum_to),
        "sum_stored": ints([row[4] for row in sums]),
        "kind_source": ints([source for source, _ in classes]),
        "kind_start": starts([tensors for _, tensors in classes]),
        "kind_tensor": flat([tensors for _, tensors in classes]),
        "copy_kind": ints([classes[_layouts(row)] for row in copies]),
        "copy_count": np.ones(len(copies)),
        "copy_start": starts([rows for _, rows in copies]),
        "copy_tensor": ints([row[0] for row in wanted]),
        "copy_from": copy_from,
        "copy_to": copy_to,
        "copy_begin": bounds[copy_from],
        "copy_end": bounds[copy_to + 1],
        "copy_narrow": ints([row[3] for row in wanted]),
        "event_position": bounds,
    }


def _short(bounds: Ints, first: Ints, last: Ints) -> NDArray[np.bool_]:
    """Whether what is there from one event to another may be on the chip for so long."""
    found: NDArray[np.bool_] = bounds[last + 1] - bounds[first] <= SOON
    return found


def _layouts(copy: Copy) -> tuple[int, tuple[int, ...]]:
    source, wanted = copy
    return source, tuple(row[0] for row in wanted)


def _at(events: Ints, positions: Sequence[int]) -> Ints:
    """The last event at or before each position: only where something begins can a peak be."""
    found = np.searchsorted(events, ints(positions), side="right") - 1
    return np.asarray(found, dtype=np.int64)
