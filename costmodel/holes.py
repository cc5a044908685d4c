"""The holes between buffers at a state that is priced: what is laid out besides what is alive.

The search prices by what is alive at once. What has settled is laid out: each buffer is put where
it fits best when it is made (`kernels/holes.py`).
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.kernels.holes import extent
from toast.costmodel.terms.journal import BRIEF, LASTING
from toast.costmodel.terms.tables import Scratch, Tables


def hole_bytes(t: Tables, s: Scratch) -> float:
    """Bytes of the holes in main memory, under the state that `s` was priced for last."""
    first, last, size = _buffers(t, s)
    if not len(size):
        return 0.0
    change = np.zeros(int(last.max()) + 2)
    np.add.at(change, first, size)
    np.subtract.at(change, last + 1, size)
    order = np.lexsort((-size, first))
    room = np.empty(len(size)), np.empty(len(size)), np.empty(len(size), dtype=np.int64)
    reached = extent(first[order], last[order], size[order], *room)
    return max(0.0, float(reached - np.cumsum(change).max()))


def _buffers(t: Tables, s: Scratch) -> tuple[Ints, Ints, Floats]:
    """The first and last event of each buffer, and its bytes that are not on the chip."""
    share = s.schedule.peaks[2]
    rows = (
        (t.live_ranges.first, t.live_ranges.last, s.live_ranges.held),
        (s.copies.first, s.copies.last, s.copies.held),
        (s.sums.held_first, s.sums.held_last, s.sums.held),
        (t.sums.first, t.sums.last, s.sums.beside_held),
        (t.sums.first, t.sums.until, s.sums.summed_held),
        (t.sums.late_first, t.sums.late_last, s.sums.late_held),
    )
    first, last, held = (np.concatenate([row[k] for row in rows]) for k in range(3))
    size = held[:, 0] - held[:, BRIEF] - share * held[:, LASTING]
    there = size > 0.0
    return first[there], last[there], size[there]
