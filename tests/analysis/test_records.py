"""What kernels read of a record is what Python sees of it."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, typeof
from numpy.typing import NDArray

from toast.analysis.jit import inner
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record


class Inside(NamedTuple):
    weight: Floats
    open: bool


@record
class Outside(NamedTuple):
    number: int
    inside: Inside
    table: Ints
    factor: float
    flags: NDArray[np.bool_]


@inner
def _weigh(inside: Any, place: int) -> float:
    return float(inside.weight[place]) if inside.open else 0.0


@njit(_nrt=False)
def add_up(r: Any, out: Floats) -> None:
    for place in range(len(r.inside.weight)):
        out[0] += r.factor * _weigh(r.inside, place) + r.number
    for row in range(r.table.shape[0]):
        for column in range(r.table.shape[1]):
            out[1] += r.table[row, column] * (row + 1)
    out[2] = r.flags.sum()
    r.table[0, -1] = 7


def outside(table: Ints, factor: float = 0.5, opened: bool = True) -> Outside:
    inside = Inside(weight=np.array([2.0, 4.0, 6.0]), open=opened)
    flags = np.array([True, False, True])
    return Outside(number=-3, inside=inside, table=table, factor=factor, flags=flags)


def read(r: Outside) -> list[float]:
    out = np.zeros(3)
    add_up(r, out)
    return list(out)


def test_kernels_read_numbers_arrays_and_records_inside() -> None:
    table = np.array([[1, 2], [3, 4]])
    assert read(outside(table)) == [0.5 * 12 - 9, 3 + 2 * 7, 2]
    assert table[0, 1] == 7, "kernels write to the arrays themselves"
    assert read(outside(np.array([[1, 2], [3, 4]]), opened=False))[0] == -9


def test_arrays_may_be_parts_of_others() -> None:
    whole = np.arange(12).reshape(3, 4)
    assert read(outside(whole[:, ::2])) == [-3, (0 + 2) + 2 * (4 + 6) + 3 * (8 + 10), 2]
    assert whole[0, 2] == 7


def test_another_value_is_another_record() -> None:
    first = outside(np.ones((2, 2), dtype=np.int64))
    read(first)
    other = first._replace(factor=2.0)
    assert read(other)[0] == 2.0 * 12 - 9
    assert read(first)[0] == 0.5 * 12 - 9


@pytest.mark.parametrize("again", [copy.copy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_copy_is_read_where_it_stands(again: Any) -> None:
    first = outside(np.ones((2, 2), dtype=np.int64))
    read(first)
    copied = again(first)
    assert isinstance(copied, Outside)
    del first
    assert read(copied)[0] == 0.5 * 12 - 9


def test_the_type_is_of_the_fields_and_not_of_their_values() -> None:
    first, other = (outside(np.zeros((rows, 2), dtype=np.int64)) for rows in (1, 5))
    assert typeof(first) == typeof(other)
    assert typeof(first) == typeof(first._replace(factor=1)), "a number is what it is declared"
    assert typeof(first) != typeof(first._replace(flags=np.zeros((1, 1), dtype=np.bool_)))
    assert pickle.loads(pickle.dumps(typeof(first))) == typeof(first)


def test_what_no_kernel_can_read_is_refused() -> None:
    with pytest.raises(TypeError, match="arrays, numbers and records"):
        typeof(outside(np.zeros((1, 1), dtype=np.int64))._replace(flags=[True]))  # type: ignore[arg-type]
