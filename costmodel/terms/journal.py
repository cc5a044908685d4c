"""The journal of one evaluation: every term that the kernels add up, and the row it is of.

A scratch for the search has an empty journal, in which nothing is written; `Evaluator.journal` has
one that is long enough for all that a state can cost.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints


class Entry(IntEnum):
    """Which table the row of an entry is of."""

    ROOT = 0
    """A fusion. `kind` is a `Bound`, `size` the bytes that it moves."""
    UNFUSED = 1
    """Partial sums that a fusion writes because a collective comes between (row of partials)."""
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
    """A fusion around a gather: one that rounds an argument to 16 bits before it, one that puts in
    place what came along two dimensions (row of edges, place among `edge_to`)."""
    FLOOR = 10
    """What computation lacks of the time that main memory takes for arguments and results, the
    part of one tensor of them (row of floors)."""
    SUMMED = 11
    """Memory of what partial sums add up to, where nothing else stores it (row of sums)."""
    UPDATED = 12
    """What computation lacks of the time that main memory takes for a buffer behind an update
    (row of updated reads)."""
    REGION = 13
    """The work of a region of `shard_map` (row of manual computations)."""
    STATED = 14
    """A collective that such a region asks for (row of manual computations, place in it)."""
    RECOMPUTED = 15
    """What is computed again where the device has too little memory (`size`: bytes spared)."""


class Bound(IntEnum):
    """What the time of a fusion goes by."""

    ARITHMETIC = 0
    BYTES = 1
    ELEMENTS = 2


class CollectiveReason(IntEnum):
    """Why the evaluator priced a collective, and no cheaper one."""

    SCATTERED = 0
    """One dimension of the result takes the axes that are summed over."""
    UNWANTED = 1
    """No dimension of the result takes the axes that are summed over."""
    TWO_DIMENSIONS = 2
    """Two dimensions of the result take axes that are summed over: it is summed whole, and cut."""
    ALL_DEVICES = 3
    """The compiler sums whole what would be scattered over all devices."""
    BATCH = 4
    """A dimension of a product's batch that is sharded already takes the axes."""
    LOOKUP = 5
    """A lookup sums over more axes than the result takes."""
    SLICED = 6
    """Something cuts a slice of the sum as it is kept."""
    SHARDED_ALREADY = 7
    """A dimension that is sharded already takes some of the axes, and not all."""
    SEGMENTS = 8
    """A scatter sums over more axes than the result takes."""
    AXIS_ORDER = 9
    """The result has the axes in another order than what is summed over."""
    BEHIND_LOOP = 10
    """A loop only adds the sums up: they are summed over devices behind it, whole."""
    REGATHERED = 11
    """What `BATCH` sums whole is gathered before it is cut."""
    GATHERED = 12
    """A use, or the value itself, has fewer axes than what it is made of."""
    EXCHANGED = 13
    """Axes move from one dimension to another."""
    REORDERED = 14
    """Axes that come or go have to be the last of a dimension, and are not."""
    NEIGHBOURS = 15
    """A window reaches into a neighbour's part."""
    ADDED = 16
    """The sums are added to others, and summed over devices with these."""
    LEFT_OUT = 17
    """The pass that scatters is left out."""
    IN_REGION = 18
    """A region of `shard_map` asks for it."""
    TRADED = 19
    """Each dimension has its parts, and they are those of other axes."""
    REMATERIALIZED = 20
    """Parts leave some dimensions and others come: the compiler gathers these dimensions first."""
    UNEVEN = 21
    """A matrix that cannot be cut into the equal pieces in which a TPU scatters."""
    FLATTENED = 22
    """The rows of a product or lookup take the axes that is a matrix but for dimensions of 1."""
    COMPLEX = 23
    """Complex numbers that every device gathers, and adds up by itself."""


TABLE, ROW, PLACE, KIND, DETAIL, COUNT, SIZE, SECONDS, WHY, COMBINED = range(10)
"""The columns of the journal. `kind` and `detail` are a bound, a collective and its axes, or the
first and last position of memory; `size` is bytes; all three are counted `count` times. Of a
collective `why` is its `CollectiveReason`, and `combined` whether it is sent with others."""
COLUMNS, STAY = 10, PLACE
BRIEF, LASTING, AGAIN = 1, 2, 3
"""Of memory the place tells whether it may be on the chip, for a short time or for longer; else it
is 0. `AGAIN` is what can be let go of, and computed again."""
PLACES = 4

(
    ROOT, UNFUSED, PARTIAL, EDGE, HALO, BASE, LIVE, COPY, SUM, LOCAL, FLOOR, SUMMED, UPDATED,
    REGION, STATED, RECOMPUTED,
) = (int(entry) for entry in Entry)  # fmt: skip
MEMORY = (BASE, LIVE, COPY, SUM, SUMMED)

LINE = 256
"""Bytes after a short array that stay unused: processors fetch lines of 64 or 128 in pairs."""


class Journal(NamedTuple):
    """`entries` [entries, columns], and `noted`: how many are written, and what is marked.

    The fifth of `noted` is 0 before anything is priced.
    """

    entries: Floats
    noted: Ints


def journal_of(entries: int) -> Journal:
    """One with room for so many entries."""
    return Journal(entries=np.zeros((entries, COLUMNS)), noted=apart(5, np.int64))


def apart(count: int, dtype: type[np.generic]) -> Any:
    """A short array of zeros that shares no cache line with another thread's."""
    return np.zeros(count + LINE // np.dtype(dtype).itemsize, dtype=dtype)[:count]
