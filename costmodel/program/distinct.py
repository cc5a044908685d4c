"""The kernel that tells rows of numbers apart, so that equal ones are worked on once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints

_FACTOR = 0x2127599BF4325C37
_SHIFT = 29


@inner
def _mixed(values: Ints, first: int, end: int) -> int:
    """A number for the values of [first, end) that is rarely that of others."""
    word = end - first
    for k in range(first, end):
        word = (word ^ values[k]) * _FACTOR
        word ^= word >> _SHIFT
    return word


@inner
def _equal(starts: Ints, values: Ints, one: int, other: int) -> bool:
    a, b = starts[one], starts[other]
    length = starts[one + 1] - a
    if starts[other + 1] - b != length:
        return False
    same = True
    for k in range(length):
        same &= values[a + k] == values[b + k]
    return same


@entry
def number_rows(starts: Ints, values: Ints, table: Ints, number: Ints, first: Ints) -> int:
    """Number rows in order of appearance, equal rows the same; `first` is the first row of each.

    `table` (-1, a power of two, longer than the rows) is a working array. Returns how many
    numbers there are.
    """
    count, mask = 0, len(table) - 1
    for row in range(len(number)):
        place = _mixed(values, starts[row], starts[row + 1]) & mask
        while table[place] >= 0 and not _equal(starts, values, first[table[place]], row):
            place = (place + 1) & mask
        if table[place] < 0:
            table[place], first[count] = count, row
            count += 1
        number[row] = table[place]
    return count


def distinct(starts: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The number of each distinct row, in order of appearance, and the first row of each.

    Row n is `values[starts[n] : starts[n + 1]]`.
    """
    rows = len(starts) - 1
    table = np.full(1 << (2 * rows + 1).bit_length(), -1)
    number, first = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    values = np.ascontiguousarray(values, dtype=np.int64)
    count = number_rows(np.ascontiguousarray(starts), values, table, number, first)
    return number, first[:count]


def distinct_rows(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """The same of rows of one entry a column."""
    values = np.stack(columns, axis=1).astype(np.int64, copy=False)
    return distinct(np.arange(len(values) + 1) * len(columns), values.ravel())
