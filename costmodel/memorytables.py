"""Live ranges as columns of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.program import Ints
from costmodel.columns import flat, floats, ints, starts
from costmodel.kernelmemory import SOON
from costmodel.liveness import Copy, Held, Intervals, Sum


def memory_columns(intervals: Intervals) -> dict[str, Any]:
    """The columns of `Tables` that memory is priced by, between events."""
    live = [*intervals.live.values(), *(held for _, held in intervals.beside)]
    wanted = [row for _, rows in intervals.copies for row in rows]
    begins = [row[1] for row in live] + [row[1] for row in wanted]
    begins += [row[2] for row in intervals.sums.values()]
    events = np.unique(ints([0, *begins]))
    bounds = np.append(events, intervals.positions)
    inner = np.zeros(len(live), dtype=np.bool_)
    inner[: len(intervals.live)] = [v not in intervals.returned for v in intervals.live]
    return {
        "base_tensor": ints(list(intervals.base)),
        "base_count": floats(list(intervals.base.values())),
        "event_position": bounds,
        **_live_columns(live, inner, events, bounds),
        **_sum_columns(list(intervals.sums.values()), events, bounds),
        **_copy_columns(intervals.copies, events, bounds),
    }


def _live_columns(
    live: list[Held], inner: NDArray[np.bool_], events: Ints, bounds: Ints
) -> dict[str, Any]:
    """Buffers; `inner` are those that are no result of the program."""
    first, last = _at(events, [row[1] for row in live]), _at(events, [row[2] for row in live])
    return {
        "live_tensor": ints([row[0] for row in live]),
        "live_from": first,
        "live_to": last,
        "live_width": floats([row[3] for row in live]),
        "live_count": np.ones(len(live)),
        "live_short": _short(bounds, first, last) & inner,
    }


def _sum_columns(sums: list[Sum], events: Ints, bounds: Ints) -> dict[str, Any]:
    at, to = (_at(events, [row[k] for row in sums]) for k in (2, 3))
    return {
        "sum_row": ints([row[0] for row in sums]),
        "sum_tensor": ints([row[1] for row in sums]),
        "sum_at": at,
        "sum_last": at,
        "sum_to": to,
        "sum_count": np.ones(len(sums)),
        "sum_short": _short(bounds, at, to),
        "sum_stored": ints([row[4] for row in sums]),
    }


def _copy_columns(copies: list[Copy], events: Ints, bounds: Ints) -> dict[str, Any]:
    wanted = [row for _, rows in copies for row in rows]
    first, last = (_at(events, [row[k] for row in wanted]) for k in (1, 2))
    classes = {row: number for number, row in enumerate(dict.fromkeys(map(_layouts, copies)))}
    return {
        "kind_source": ints([source for source, _ in classes]),
        "kind_start": starts([tensors for _, tensors in classes]),
        "kind_tensor": flat([tensors for _, tensors in classes]),
        "copy_kind": ints([classes[_layouts(row)] for row in copies]),
        "copy_count": np.ones(len(copies)),
        "copy_start": starts([rows for _, rows in copies]),
        "copy_tensor": ints([row[0] for row in wanted]),
        "copy_from": first,
        "copy_to": last,
        "copy_begin": bounds[first],
        "copy_end": bounds[last + 1],
        "copy_narrow": ints([row[3] for row in wanted]),
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
