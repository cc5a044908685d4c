"""Kernel for the holes between buffers: each is put where it fits best when it is made, and stays.

A TPU's compiler goes through its schedule and puts each buffer into the smallest hole that is large
enough, or behind all others. A large buffer that is made late, such as the gradient of a table,
finds holes of what was let go of before, none of which is large enough.
"""

from __future__ import annotations

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints


@inner
def _let_go(at: Floats, sizes: Floats, ends: Ints, count: int, now: int) -> int:
    """Forget the placed buffers that ended before an event; how many are left."""
    kept = 0
    for k in range(count):
        if ends[k] >= now:
            at[kept], sizes[kept], ends[kept] = at[k], sizes[k], ends[k]
            kept += 1
    return kept


@inner
def _place(at: Floats, sizes: Floats, count: int, size: float) -> tuple[int, float]:
    """Where a buffer fits best among the placed ones: behind how many of them, and its offset."""
    before, offset, free = -1, 0.0, 0.0
    reached = 0.0
    for k in range(count):
        hole = at[k] - reached
        if hole >= size and (before < 0 or hole < free):
            before, offset, free = k, reached, hole
        reached = at[k] + sizes[k]
    return (before, offset) if before >= 0 else (count, reached)


@entry
def extent(first: Ints, last: Ints, size: Floats, at: Floats, sizes: Floats, ends: Ints) -> float:
    """How far buffers reach that are made in this order, each over the events [first, last].

    `at`, `sizes` and `ends` are room for as many placed ones, by offset.
    """
    count, reached = 0, 0.0
    for row in range(len(first)):
        count = _let_go(at, sizes, ends, count, first[row])
        before, offset = _place(at, sizes, count, size[row])
        for k in range(count, before, -1):
            at[k], sizes[k], ends[k] = at[k - 1], sizes[k - 1], ends[k - 1]
        at[before], sizes[before], ends[before] = offset, size[row], last[row]
        count += 1
        reached = max(reached, offset + size[row])
    return reached
