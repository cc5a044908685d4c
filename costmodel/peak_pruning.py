"""The memory rows that can decide a peak: exactly the same peak in every state, from fewer rows.

What is alive at an event is a sum over *classes* of rows, each as many times as it is there: all
rows of a class are equally large in every state. So an event is a vector of whole numbers, and a
state, whatever it is, a vector of sizes to multiply it with; where a chip keeps some of them, and
of others the part that is the state's, the larger of two such products. The most of that is at a
corner of the convex hull of the vectors. What waits where there is memory makes that two such
maxima, of which one is cut off.
Repeated layers lie on straight lines: all of a line but its two ends is left out here, and of equal
vectors all but one. Rows that are left with the same events are one row with a count. Deeper
programs thus have no more rows than shallow ones.

Vectors are compared by two random projections of 64 bits, which keep sums as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints
from toast.costmodel.program.distinct import distinct
from toast.costmodel.terms.journal import AGAIN
from toast.costmodel.terms.live_ranges import LiveRangeColumns
from toast.costmodel.terms.reshard_copies import CopyColumns
from toast.costmodel.terms.sum_buffers import SumColumns
from toast.costmodel.terms.tables import Tables, connected

Words = NDArray[np.uint64]
"""Projections [number, 2]; sums wrap around, which keeps equations between them true."""

_SEEDS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)
_LIVE, _SUM, _SUMMED, _COPY, _PHASE, _WAITING, _LATE = range(7)
PRIME = 1_000_003
WINDOWS = 7
"""Two events are alike where the last 1, 2, 4, and so on changes before them are the same."""


def fold(t: Tables) -> Tables:
    """The same tables with the memory rows of the events where a peak can be, and no others."""
    kept = peak_events(t)
    position = np.append(t.schedule.position[:-1][kept], t.schedule.position[-1])
    return connected(
        t._replace(
            schedule=t.schedule._replace(position=position),
            live_ranges=_live(t, kept),
            sums=_sums(t, kept),
            copies=_copies(t, kept),
        )
    )


def peak_events(t: Tables) -> Ints:
    """The events at which a peak can be: the peak of every state is at one of them."""
    events = len(t.schedule.position) - 1
    ends = np.zeros(events, dtype=np.bool_)
    summed = t.sums.until[t.sums.stored == 0]
    let_go = t.live_ranges.stay == AGAIN
    live, gap = t.live_ranges.last[~let_go], t.live_ranges.first[let_go]
    read = t.copies.gap_first  # what is read no more can be let go of
    before = np.concatenate([gap, read]) - 1
    lasting = (t.sums.first, t.sums.wait_last, summed, t.copies.last)
    for column in (live, *lasting, before[before >= 0]):
        ends[column] = True
    ends[-1] = True  # what nothing ends at holds no more than what follows
    last = np.flatnonzero(ends)
    return last[_corners(_alive(t, events)[last])]


def _corners(alive: Words) -> Ints:
    """The numbers of the vectors that are neither given before nor halfway between two others."""
    _, firsts = distinct(np.arange(len(alive) + 1) * 2, alive.view(np.int64).ravel())
    chosen = np.zeros(len(alive), dtype=np.bool_)
    chosen[firsts] = True
    window = np.diff(alive, axis=0, prepend=np.zeros((1, 2), dtype=np.uint64))
    for level in range(WINDOWS):
        order = np.argsort(window[:, 0], kind="stable")
        one, next_one = order[:-1], order[1:]
        for here, other in ((one, next_one), (next_one, one)):
            chosen[halfway(alive, here, other)] = False
        shifted = np.zeros_like(window)
        shifted[1 << level :] = window[: -(1 << level)]
        window = window + _mixed(np.array([level]), _PHASE) * shifted
    return np.flatnonzero(chosen)


def halfway(alive: Words, here: Ints, other: Ints) -> Ints:
    """Those of `here` whose vector is halfway between that of `other` and one as far before it."""
    mirrored = 2 * here - other
    there = (mirrored >= 0) & (mirrored < len(alive))
    here, other, mirrored = here[there], other[there], mirrored[there]
    for word in alive.T:  # the second word is asked of what is left
        line = word[mirrored] + word[other] == np.uint64(2) * word[here]
        here, other, mirrored = here[line], other[line], mirrored[line]
    return here[(alive[other] != alive[here]).any(axis=1)]


def _alive(t: Tables, events: int) -> Words:
    """The vector of each event, projected."""
    change = np.zeros((events + 1, 2), dtype=np.uint64)
    live = _mixed(
        t.live_ranges.tensor,
        _LIVE,
        _bits(t.live_ranges.width),
        _bits(t.live_ranges.part),
        t.live_ranges.lies,
        t.live_ranges.stay,
        t.live_ranges.unsummed,
        t.live_ranges.within,
    )
    _hold(change, t.live_ranges.first, t.live_ranges.last, live)
    _hold(change, t.sums.first, t.sums.first, _mixed(t.sums.row, _SUM, t.sums.tensor))
    waiting = _mixed(t.sums.row, _WAITING, t.sums.tensor, t.sums.mate, t.sums.scattered_mate)
    _hold(change, t.sums.wait_first, t.sums.wait_last, waiting)
    summed = t.sums.stored == 0
    words = _mixed(t.sums.row, _SUMMED)[summed]
    _hold(change, t.sums.first[summed], t.sums.until[summed], words)
    late = t.sums.late_first <= t.sums.late_last
    words = _mixed(t.sums.row, _LATE, t.sums.tensor)[late]
    _hold(change, t.sums.late_first[late], t.sums.late_last[late], words)
    for groups, rows in _by_count(t):
        kind, there = t.copies.kind[groups, None], t.copies.there[groups, None]
        fixed = np.concatenate([kind, there, _alike(t, rows)], axis=1)
        spans = ((t.copies.first, t.copies.last), (t.copies.gap_first, t.copies.gap_last))
        lows, highs = ([span[side][rows] for span in spans] for side in (0, 1))
        _hold_copies(change, _hashed(fixed), np.hstack(lows), np.hstack(highs))
    return np.cumsum(change, axis=0, dtype=np.uint64)[:-1]


def _hold(change: Words, first: Ints, last: Ints, words: Words) -> None:
    np.add.at(change, first, words)
    np.subtract.at(change, last + 1, words)


def _hold_copies(change: Words, kinds: Words, low: Ints, high: Ints) -> None:
    """Copies of values of these kinds, each wanted over [low, high] [values, layouts and gaps].

    Which of the layouts are the same, and so share a copy from the first to the last of them,
    depends on the state. What it makes of a value at an event follows from its kind and from
    which of these spans, and of the gaps in them, are to come, there or over; that is the class.
    """
    bounds = np.sort(np.concatenate([low, high + 1], axis=1), axis=1)
    for segment in range(bounds.shape[1] - 1):
        first, end = bounds[:, segment], bounds[:, segment + 1]
        some = np.flatnonzero(first < end)
        now = first[some, None]
        phases = (now >= low[some]).astype(np.int64) + (now > high[some])
        words = _hashed(phases) + kinds[some]
        _hold(change, first[some], end[some] - 1, _mixed(*words.T.copy().view(np.int64), _COPY))


def _alike(t: Tables, rows: Ints) -> Ints:
    """What tells copies apart beside their kind and events [values, n], of these rows of each.

    The width that each travels in, and which can be let go of.
    """
    gap = t.copies.gap_first[rows] <= t.copies.gap_last[rows]
    return np.concatenate([t.copies.narrow[rows], gap], axis=1)


def _hashed(rows: Ints) -> Words:
    """Random words for rows of numbers."""
    places = np.arange(rows.shape[1]) * PRIME + rows
    return _mixed(places.ravel(), _PHASE).reshape(*places.shape, 2).sum(axis=1, dtype=np.uint64)


def _bits(numbers: Floats) -> Ints:
    return np.ascontiguousarray(numbers).view(np.int64)


def _by_count(t: Tables) -> list[tuple[Ints, Ints]]:
    """The values with copies, by how many layouts are wanted: numbers, and their rows."""
    counts = np.diff(t.copies.start)
    found = []
    for count in np.unique(counts).tolist():
        groups = np.flatnonzero(counts == count)
        found.append((groups, t.copies.start[groups][:, None] + np.arange(count)))
    return found


def _mixed(first: Ints, *others: NDArray[Any] | int) -> Words:
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


def _counted(
    columns: Sequence[NDArray[Any]], there: NDArray[np.bool_]
) -> tuple[list[Ints], Ints, Floats]:
    """The distinct rows of columns that are `there`, the first of each, and how many they are."""
    which = np.flatnonzero(there)
    keys = np.stack([np.asarray(column)[which] for column in columns], axis=1).astype(np.int64)
    number, first = distinct(np.arange(len(keys) + 1) * keys.shape[1], keys.ravel())
    order = np.lexsort(keys[first].T[::-1])
    counts = np.bincount(number, minlength=len(first))[order]
    return list(keys[first[order]].T.copy()), which[first[order]], counts.astype(np.float64)


def _live(t: Tables, kept: Ints) -> LiveRangeColumns:
    """Buffers of one layout that are alive over the same events are one, so many times."""
    low, high = _between(kept, t.live_ranges.first, t.live_ranges.last)
    columns = (
        t.live_ranges.tensor,
        low,
        high,
        _bits(t.live_ranges.width),
        _bits(t.live_ranges.part),
        t.live_ranges.lies,
        t.live_ranges.stay,
        t.live_ranges.unsummed,
        t.live_ranges.within,
    )
    (tensor, first, last, *_), at, count = _counted(columns, low <= high)
    return LiveRangeColumns(
        tensor=tensor,
        first=first,
        last=last,
        width=t.live_ranges.width[at],
        part=t.live_ranges.part[at],
        lies=t.live_ranges.lies[at],
        stay=t.live_ranges.stay[at],
        unsummed=t.live_ranges.unsummed[at],
        within=t.live_ranges.within[at],
        mate=t.live_ranges.mate[at],
        scattered_mate=t.live_ranges.scattered_mate[at],
        times=count,
    )


def _sums(t: Tables, kept: Ints) -> SumColumns:
    """Partial sums of one row that are there at an event that is kept, or whose total is."""
    sums = t.sums
    low, last = _between(kept, sums.first, sums.first)
    _, high = _between(kept, sums.first, np.where(sums.stored == 0, sums.until, sums.first))
    waits = _between(kept, sums.wait_first, sums.wait_last)
    late = _between(kept, sums.late_first, sums.late_last)
    mates = sums.mate, sums.scattered_mate
    tensors = sums.tensor, sums.updates
    columns = (sums.row, *mates, *tensors, low, last, high, *waits, *late, sums.stored)
    some = (low <= high) | (waits[0] <= waits[1]) | (late[0] <= late[1])
    found, at, count = _counted(columns, some)
    row, mate, scattered, tensor, updates, first, ends, to, *waited = found
    return SumColumns(
        row=row,
        mate=mate,
        scattered_mate=scattered,
        tensor=tensor,
        updates=updates,
        first=first,
        last=ends,
        until=to,
        wait_first=waited[0],
        wait_last=waited[1],
        late_first=waited[2],
        late_last=waited[3],
        stored=t.sums.stored[at],
        times=count,
    )


def _copies(t: Tables, kept: Ints) -> CopyColumns:
    """Values of one kind whose copies are wanted over the same events are one, so many times."""
    kinds, counts, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros(0, np.int64)]
    starts, known = [0], [np.zeros(0, dtype=np.int64)]
    low, high = _between(kept, t.copies.first, t.copies.last)
    gap_low, gap_high = _between(kept, t.copies.gap_first, t.copies.gap_last)
    for groups, rows in _by_count(t):
        there = low[rows].min(axis=1) <= high[rows].max(axis=1)
        ends = [column for part in (low, high, gap_low, gap_high) for column in part[rows].T]
        keys = (t.copies.kind[groups], t.copies.there[groups], *ends, *_alike(t, rows).T)
        (kind, had, *_), at, count = _counted(keys, there)
        known.append(had)
        starts += [starts[-1] + rows.shape[1] * (n + 1) for n in range(len(at))]
        kinds.append(kind)
        counts.append(count)
        places.append(rows[at].ravel())
    place, wanted = np.concatenate(places), t.copies
    return wanted._replace(
        kind=np.concatenate(kinds),
        times=np.concatenate(counts),
        there=np.concatenate(known).astype(np.bool_),
        start=np.array(starts, dtype=np.int64),
        tensor=wanted.tensor[place],
        first=low[place],
        last=high[place],
        gap_first=gap_low[place],
        gap_last=gap_high[place],
        narrow=wanted.narrow[place],
    )
