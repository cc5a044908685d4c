"""The memory rows that can decide a peak: exactly the same peak in every state, from fewer rows.

What is alive at an event is a sum over *classes* of rows, each as many times as it is there: all
rows of a class are equally large in every state. So an event is a vector of whole numbers, and a
state, whatever it is, a vector of sizes to multiply it with. The most of these products is reached
at a corner of the convex hull of the vectors. Repeated layers lie on straight lines: all of a line
but its two ends is left out here, and of equal vectors all but one. Rows that are left with the
same events are one row with a count. Deeper programs thus have no more rows than shallow ones.

Vectors are compared by two random projections of 64 bits, which keep sums as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.program import Ints
from costmodel.dependencies import dependency_columns
from costmodel.tables import Tables

Words = NDArray[np.uint64]
"""Projections [number, 2]; sums wrap around, which keeps equations between them true."""

_SEEDS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)
_LIVE, _SUM, _FEED, _COPY, _PHASE = range(5)
WINDOWS = 7
"""Events are alike where what changed before them is, over 1, 2, 4, and so on changes."""


def fold(t: Tables) -> Tables:
    """The same tables with the memory rows of the events where a peak can be, and no others."""
    kept = peak_events(t)
    columns = _live(t, kept) | _moments(t, kept) | _copies(t, kept)
    columns["event_position"] = np.append(t.event_position[:-1][kept], t.event_position[-1])
    folded = t._replace(**columns)
    return folded._replace(**dependency_columns(folded._asdict()))


def peak_events(t: Tables) -> Ints:
    """The events at which the peak of some state may be: where it is for all others as well."""
    events = len(t.event_position) - 1
    ends = np.zeros(events, dtype=np.bool_)
    for column in (t.live_to, t.sum_at, t.feed_at, t.copy_to):
        ends[column] = True
    ends[-1] = True  # what nothing ends at holds no more than what follows
    last = np.flatnonzero(ends)
    return last[_corners(_alive(t, events)[last])]


def _corners(alive: Words) -> Ints:
    """The numbers of the vectors that are neither given before nor halfway between two others."""
    _, firsts = np.unique(alive, axis=0, return_index=True)
    chosen = np.zeros(len(alive), dtype=np.bool_)
    chosen[firsts] = True
    window = np.diff(alive, axis=0, prepend=np.zeros((1, 2), dtype=np.uint64))
    for level in range(WINDOWS):
        order = np.argsort(window[:, 0], kind="stable")
        one, next_one = order[:-1], order[1:]
        for here, other in ((one, next_one), (next_one, one)):
            chosen[_halfway(alive, here, other)] = False
        shifted = np.zeros_like(window)
        shifted[1 << level :] = window[: -(1 << level)]
        window = window + _mixed(np.array([level]), _PHASE) * shifted
    return np.flatnonzero(chosen)


def _halfway(alive: Words, here: Ints, other: Ints) -> Ints:
    """Those of `here` whose vector is halfway between that of `other` and one as far before it."""
    mirrored = 2 * here - other
    there = (mirrored >= 0) & (mirrored < len(alive))
    here, other, mirrored = here[there], other[there], mirrored[there]
    line = (alive[mirrored] + alive[other] == np.uint64(2) * alive[here]).all(axis=1)
    return here[line & (alive[other] != alive[here]).any(axis=1)]


def _alive(t: Tables, events: int) -> Words:
    """The vector of each event, projected."""
    change = np.zeros((events + 1, 2), dtype=np.uint64)
    widths = np.ascontiguousarray(t.live_width).view(np.int64)
    _hold(change, t.live_from, t.live_to, _mixed(t.live_tensor, _LIVE, widths))
    _hold(change, t.sum_at, t.sum_at, _mixed(t.sum_row, _SUM, t.sum_tensor, t.sum_stored))
    _hold(change, t.feed_at, t.feed_at, _mixed(t.feed_row, _FEED, t.feed_tensor))
    for groups, low, high in _by_count(t):
        _hold_copies(change, t.copy_kind[groups], low, high)
    return np.cumsum(change, axis=0, dtype=np.uint64)[:-1]


def _hold(change: Words, first: Ints, last: Ints, words: Words) -> None:
    np.add.at(change, first, words)
    np.subtract.at(change, last + 1, words)


def _hold_copies(change: Words, kinds: Ints, low: Ints, high: Ints) -> None:
    """Copies of values of these kinds, each wanted over [low, high] [values, layouts].

    Which of the layouts are the same, and so share a copy from the first to the last of them,
    depends on the state. What it makes of a value at an event follows from its kind and from
    which of these spans are to come, there or over; that is the class.
    """
    bounds = np.sort(np.concatenate([low, high + 1], axis=1), axis=1)
    for segment in range(bounds.shape[1] - 1):
        first, end = bounds[:, segment], bounds[:, segment + 1]
        some = np.flatnonzero(first < end)
        now = first[some, None]
        phases = (now >= low[some]).astype(np.int64) + (now > high[some])
        places = np.arange(low.shape[1]) * 3 + phases
        mixed = _mixed(places.ravel(), _PHASE).reshape(*places.shape, 2).sum(axis=1)
        words = _mixed(mixed[:, 0].view(np.int64), _COPY, mixed[:, 1].view(np.int64), kinds[some])
        _hold(change, first[some], end[some] - 1, words)


def _by_count(t: Tables) -> list[tuple[Ints, Ints, Ints]]:
    """The values with copies, by how many layouts are wanted: numbers, first and last events."""
    counts = np.diff(t.copy_start)
    found = []
    for count in np.unique(counts).tolist():
        groups = np.flatnonzero(counts == count)
        rows = t.copy_start[groups][:, None] + np.arange(count)
        found.append((groups, t.copy_from[rows], t.copy_to[rows]))
    return found


def _mixed(first: Ints, *others: Ints | int) -> Words:
    """Two random words for each row of columns, by the finaliser of splitmix64."""
    words = np.broadcast_to(_SEEDS, (len(first), 2))
    for column in (first, *others):
        key = np.asarray(column, dtype=np.int64).view(np.uint64).reshape(-1, 1)
        words = (words ^ key) + _SEEDS[0]
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return words


def _between(kept: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The first and the last of the kept events in each span, by number; none: last is first - 1.

    The span of several is that from the least to the most of theirs.
    """
    low = np.searchsorted(kept, first, side="left").astype(np.int64)
    return low, np.searchsorted(kept, last, side="right").astype(np.int64) - 1


def _live(t: Tables, kept: Ints) -> dict[str, Any]:
    """Buffers of one layout that are alive over the same events are one, as wide as all."""
    low, high = _between(kept, t.live_from, t.live_to)
    there = low <= high
    rows, place = np.unique(
        np.stack([t.live_tensor, low, high], axis=1)[there], axis=0, return_inverse=True
    )
    width = np.bincount(place.ravel(), weights=t.live_width[there], minlength=len(rows))
    tensor, low, high = rows.T.copy()
    return {"live_tensor": tensor, "live_from": low, "live_to": high, "live_width": width}


def _moments(t: Tables, kept: Ints) -> dict[str, Any]:
    """Sums and operands at the events that are kept."""
    found: dict[str, Any] = {}
    for at, others in (
        ("sum_at", ("sum_row", "sum_tensor", "sum_stored")),
        ("feed_at", ("feed_row", "feed_tensor")),
    ):
        low, high = _between(kept, getattr(t, at), getattr(t, at))
        found[at] = low[low <= high]
        found |= {name: getattr(t, name)[low <= high] for name in others}
    return found


def _copies(t: Tables, kept: Ints) -> dict[str, Any]:
    """Values of one kind whose copies are wanted over the same events are one, so many times."""
    kinds, counts, lows, highs, tensors = [], [], [], [], []
    starts = [0]
    for groups, first, last in _by_count(t):
        low, high = _between(kept, first, last)
        there = low.min(axis=1) <= high.max(axis=1)
        keys = np.concatenate([t.copy_kind[groups, None], low, high], axis=1)[there]
        rows, number = np.unique(keys, axis=0, return_counts=True)
        width = low.shape[1]
        starts += [starts[-1] + width * (n + 1) for n in range(len(rows))]
        kinds.append(rows[:, 0])
        counts.append(number.astype(np.float64))
        lows.append(rows[:, 1 : 1 + width].ravel())
        highs.append(rows[:, 1 + width :].ravel())
        tensors.append(t.kind_tensor[t.kind_start[rows[:, :1]] + np.arange(width)].ravel())
    none = np.zeros(0, dtype=np.int64)
    return {
        "copy_kind": np.concatenate([none, *kinds]),
        "copy_count": np.concatenate([np.zeros(0), *counts]),
        "copy_start": np.array(starts, dtype=np.int64),
        "copy_from": np.concatenate([none, *lows]),
        "copy_to": np.concatenate([none, *highs]),
        "copy_tensor": np.concatenate([none, *tensors]),
    }
