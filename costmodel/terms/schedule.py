"""The schedule of fusions: events, which are the positions where something begins to be alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.terms.journal import PLACES


class Schedule(NamedTuple):
    """The `position` of each event, and at last that where the schedule ends."""

    position: Ints

    def event_at(self, positions: Ints) -> Ints:
        """The last event at or before each position: only where something begins can a peak be."""
        found = np.searchsorted(self.position[:-1], positions, side="right") - 1
        return np.asarray(found, dtype=np.int64)

    def event_from(self, positions: Ints) -> Ints:
        """The first event at or behind each position: from there on something is let go of."""
        return np.searchsorted(self.position[:-1], positions).astype(np.int64)


class ScheduleScratch(NamedTuple):
    """By event and place what changes of the bytes alive (`delta`).

    `peaks`: the most bytes with room for all, and where all that can be let go of is; and the part
    on the chip of what is small but not short-lived.
    """

    delta: Floats
    peaks: Floats


def schedule_of(begins: Sequence[Ints], end: int) -> Schedule:
    """The events at which something begins, in a schedule of so many positions."""
    events = np.unique(np.concatenate([[0], *begins]))
    return Schedule(position=np.append(events, end))


def schedule_scratch(schedule: Schedule) -> ScheduleScratch:
    """Working arrays for the timeline."""
    delta = np.zeros((len(schedule.position) + 1, PLACES))
    return ScheduleScratch(delta=delta, peaks=np.zeros(3))
