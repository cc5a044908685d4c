"""The journal of one evaluation: every term that the kernels add up, and the row it is of.

A scratch for the search has an empty journal, in which nothing is written; `Evaluator.journal` has
one that is long enough for all that a state can cost.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from toast.analysis.program import Floats, Ints


class Entry(IntEnum):
    """Which table the row of an entry is of."""

    ROOT = 0
    """A kernel. `kind` is a `Bound`, `size` the bytes that it moves."""
    UNFUSED = 1
    """Partial sums that a kernel writes because a collective comes between (row of partials)."""
    PARTIAL = 2
    """A collective at the results of an op (row of partials, place among the results)."""
    EDGE = 3
    """A collective between a value and its uses (row of edges, place among `edge_to`)."""
    HALO = 4
    """Strips exchanged with neighbours."""
    BASE = 5
    """Memory that is held throughout."""
    LIVE = 6
    """Memory of a buffer from position `kind` to position `detail`."""
    COPY = 7
    """Memory of a resharded copy."""
    SUM = 8
    """Memory of partial sums."""
    LOCAL = 9
    """A kernel around a gather: one that rounds an argument to 16 bits before it, one that puts in
    place what came along two dimensions (row of edges, place among `edge_to`)."""
    FLOOR = 10
    """What computation lacks of the time that main memory takes for arguments and results, the
    part of one tensor of them (row of floors)."""
    SUMMED = 11
    """Memory of what partial sums add up to, where nothing else stores it (row of sums)."""
    UPDATED = 12
    """What computation lacks of the time that main memory takes for a buffer behind an update
    (row of updated reads)."""


class Bound(IntEnum):
    """What the time of a kernel goes by."""

    ARITHMETIC = 0
    BYTES = 1
    ELEMENTS = 2


TABLE, ROW, PLACE, KIND, DETAIL, COUNT, SIZE, SECONDS = range(8)
"""The columns of the journal. `kind` and `detail` are a bound, a collective and its axes, or the
first and last position of memory; `size` is bytes; all three are counted `count` times."""
COLUMNS, STAY = 8, PLACE
BRIEF, LATE, LASTING = 1, 2, 3
"""Of memory the place tells whether it may be on the chip, for a short time or for longer, and
`LATE` where it waits if there is room; else it is 0."""
PLACES = 4

ROOT, UNFUSED, PARTIAL, EDGE, HALO, BASE, LIVE, COPY, SUM, LOCAL, FLOOR, SUMMED, UPDATED = (
    int(entry) for entry in Entry
)
MEMORY = (BASE, LIVE, COPY, SUM, SUMMED)

LINE = 256
"""Bytes after a short array that stay unused: processors fetch lines of 64 or 128 in pairs."""


class Journal(NamedTuple):
    """`entries` [entries, columns], and `noted`: how many are written, and what is marked.

    The fifth of `noted` is 0 before anything is priced.
    """

    entries: Floats
    noted: Ints
