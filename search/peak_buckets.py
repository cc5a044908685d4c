"""The fastest states by buckets of their peak, as the threads of a search note them.

There are 16 buckets to each doubling of the peak, so noting a state costs one comparison.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record

STEPS = 16
"""Buckets to each doubling of the peak."""
BUCKETS = 48 * STEPS
"""Peaks of 2^48 bytes and more share the last bucket."""


@record
class PeakBuckets(NamedTuple):
    """The fastest state of each bucket, as one thread of the tree search keeps them.

    `seconds`, `peak` and `length` [BUCKETS], `path` [BUCKETS, depth] numbers of actions.
    """

    seconds: Floats
    peak: Floats
    length: Ints
    path: NDArray[np.int32]


@entry
def bucket_of(peak: float) -> int:
    """The bucket of a peak in bytes."""
    return min(BUCKETS - 1, int(STEPS * math.log2(max(peak, 1.0))))


@entry
def keep(buckets: PeakBuckets, seconds: float, peak: float, path: Ints, length: int) -> None:
    """Note a state: it stays if it is the fastest of its bucket, or as fast with a lower peak."""
    bucket = bucket_of(peak)
    known = buckets.seconds[bucket]
    if seconds > known or (seconds == known and peak >= buckets.peak[bucket]):
        return
    buckets.seconds[bucket] = seconds
    buckets.peak[bucket] = peak
    buckets.length[bucket] = length
    for k in range(length):
        buckets.path[bucket, k] = path[k]
