"""The front of time against memory: of all states that were priced, those worth choosing from.

Only the fastest state of a bucket of peaks is kept. What no other kept state beats in both time and
peak is on the front of *all* states that were priced: a state that beats it would be in its bucket
or a lower one, and the state kept there would beat it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toast.costmodel.evaluator import Action, State
from toast.costmodel.tables import apart
from toast.search.peak_buckets import BUCKETS, PeakBuckets, bucket_of

NEGLIGIBLE = 1e-3
"""States whose times and peaks differ by less than this part are one choice."""
MOST = 10


def new_buckets(depth: int) -> PeakBuckets:
    """Buckets that hold nothing yet."""
    seconds = apart(BUCKETS, np.float64)
    seconds[:] = np.inf
    return PeakBuckets(
        seconds=seconds,
        peak=apart(BUCKETS, np.float64),
        length=apart(BUCKETS, np.int64),
        path=np.zeros((BUCKETS, depth), dtype=np.int32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A state, its step time and its peak."""

    seconds: float
    peak: float
    state: State


class ParetoFront:
    """The fastest state of each bucket, of all states that were priced for one problem."""

    def __init__(self) -> None:
        self._points: dict[int, Point] = {}

    def note(self, seconds: float, peak: float, state: Sequence[Action]) -> None:
        """Note a state that was priced."""
        bucket = bucket_of(peak)
        known = self._points.get(bucket)
        if known is None or (seconds, peak) < (known.seconds, known.peak):
            self._points[bucket] = Point(seconds=seconds, peak=peak, state=tuple(state))

    def merge(self, buckets: PeakBuckets, actions: Sequence[Action]) -> None:
        """Note what a thread kept."""
        for bucket in np.flatnonzero(np.isfinite(buckets.seconds)).tolist():
            path = buckets.path[bucket, : buckets.length[bucket]].tolist()
            state = tuple(actions[number] for number in path)
            self.note(float(buckets.seconds[bucket]), float(buckets.peak[bucket]), state)

    def points(self) -> list[Point]:
        """States such that none is both faster and smaller, by rising peak."""
        found: list[Point] = []
        for point in sorted(self._points.values(), key=lambda point: (point.peak, point.seconds)):
            if not found or point.seconds < found[-1].seconds:
                found.append(point)
        return found


def thinned(points: Sequence[Point], chosen: Point, most: int = MOST) -> list[Point]:
    """At most `most` of a front by rising peak, `chosen` and both ends among them.

    Points whose bytes buy less than `NEGLIGIBLE` of the time are left out. Then the point whose
    neighbours are nearest to each other goes, until `most` are left. Distances are ratios of times
    and of peaks.
    """
    kept: list[Point] = []
    others = (point for point in points if point is not chosen)
    for point in sorted([*others, chosen], key=lambda point: (point.peak, point.seconds)):
        if point is chosen or not any(_covers(other, point) for other in (*kept, chosen)):
            kept.append(point)
    while len(kept) > max(most, 3):
        inner = [k for k in range(1, len(kept) - 1) if kept[k] is not chosen]
        del kept[min(inner, key=lambda k: _distance(kept[k - 1], kept[k + 1]))]
    return kept


def _covers(point: Point, other: Point) -> bool:
    """Whether `other` is no choice beside `point`: neither faster nor smaller to speak of."""
    slower = other.seconds > point.seconds * (1 - NEGLIGIBLE)
    return slower and other.peak > point.peak * (1 - NEGLIGIBLE)


def _distance(one: Point, other: Point) -> float:
    time = math.log(max(one.seconds, 1e-30) / max(other.seconds, 1e-30))
    return math.hypot(time, math.log(max(one.peak, 1.0) / max(other.peak, 1.0)))
