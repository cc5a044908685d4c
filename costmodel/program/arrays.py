"""From rows of Python to the flat arrays that kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toast.analysis.program import Floats, Ints


def ints(values: Sequence[int] | Ints) -> Ints:
    """An array of whole numbers."""
    return np.asarray(values, dtype=np.int64)


def flags(count: int, numbers: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Which of `count` things have these numbers."""
    found = np.zeros(count, dtype=np.bool_)
    found[list(numbers)] = True
    return found


def floats(values: Sequence[float]) -> Floats:
    """An array of floats."""
    return np.asarray(values, dtype=np.float64)


def starts(rows: Sequence[Sequence[Any]]) -> Ints:
    """Where each row begins in `flat`, and the end of the last one."""
    counts = [len(row) for row in rows]
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def flat(rows: Sequence[Sequence[int]]) -> Ints:
    """The entries of all rows, one after another."""
    return ints([item for row in rows for item in row])


def spans(firsts: Ints, counts: Ints) -> Ints:
    """The numbers from each first on, as many as it counts, one after another."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.arange(total) + np.repeat(firsts - ends + counts, counts)
    return found
