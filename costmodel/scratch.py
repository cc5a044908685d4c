"""The working arrays of the evaluator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.program import Floats, Ints
from costmodel.kerneljournal import COLUMNS
from costmodel.tables import Tables

LINE = 256
"""Bytes after a short array that stay unused: processors fetch lines of 64 or 128 in pairs."""


class Scratch(NamedTuple):
    """Working arrays of one thread.

    `mask[item]` is the set of axes on an item as bits, `shards[item]` their product, `used[unit]`
    the axes that a unit has given away; `local[tensor]` bytes on one device;
    `leader` of each layout that uses want the first that is the same in this state, -1 where it is
    that of the value; `delta[event]` change of the bytes alive; `reduced[row]` the
    axes over which a row of the partials has partial sums. `wire` [5, 2^axes, 3]
    collects count, bytes and seconds by collective and axes. `journal` [entries, columns],
    where there is one, has what was added up, and `noted` how far it is written; see
    `kerneljournal`.
    """

    mask: Ints
    shards: Ints
    used: Ints
    local: Floats
    leader: Ints
    delta: Floats
    reduced: Ints
    wire: Floats
    journal: Floats | None
    noted: Ints


def apart(count: int, dtype: type[np.generic]) -> Any:
    """A short array of zeros that shares no cache line with another thread's."""
    return np.zeros(count + LINE // np.dtype(dtype).itemsize, dtype=dtype)[:count]


def new_scratch(tables: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit `tables`; with a journal where it is to have entries."""
    items, axes = len(tables.item_group), len(tables.axis_size)
    return Scratch(
        mask=np.zeros(items, dtype=np.int64),
        shards=np.ones(items, dtype=np.int64),
        used=np.zeros(len(tables.unit_start) - 1, dtype=np.int64),
        local=np.zeros(len(tables.tensor_itemsize), dtype=np.float64),
        leader=np.zeros(len(tables.kind_tensor), dtype=np.int64),
        delta=np.zeros(len(tables.event_position) + 1, dtype=np.float64),
        reduced=np.zeros(len(tables.part_weight), dtype=np.int64),
        wire=np.zeros((5, 1 << axes, 3), dtype=np.float64),
        journal=np.zeros((entries, COLUMNS), dtype=np.float64) if entries else None,
        noted=apart(4, np.int64),
    )
