"""The working arrays of the evaluator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.kernels.journal import COLUMNS, DETAIL, KIND, MEMORY, PLACES, TABLE
from toast.costmodel.tables import Tables

LINE = 256
"""Bytes after a short array that stay unused: processors fetch lines of 64 or 128 in pairs."""


@record
class Scratch(NamedTuple):
    """Working arrays of one thread.

    `mask[item]` is the set of axes on an item as bits, `shards[item]` their product, `used[unit]`
    the axes that a unit has given away; `local[tensor]` bytes on one device, and `stored[tensor]`
    with what pads them in memory, `given[tensor]` those of an argument; `leader` of each layout
    that uses want the first that is the same in this state, -1 where it is that of the value;
    `delta[event]` change of the bytes alive, and, at the places of `kerneljournal`, of those that
    may be on the chip and of those that wait where there is memory; `reduced[row]` the axes over
    which a row of the partials has partial sums, and `behind[row]` whether they are summed behind a
    loop; `turn_*` what each move needs of the order of axes, and `ahead` [groups, axes, axes] what
    it is worth to a colour that one axis leads another, `follows` the same of what sums follow,
    `axis_place` [groups, axes] the order that is found, `cut_*` which sums are scattered over
    several axes, and of every result `sum_reason` why its sums are sent as they are, and, with a
    journal, `sum_told` whether the compiler is told what they are made as; see `axis_order`.
    `sum_axes` and `sum_cost` [results, 2] what is scattered of each result and what
    is not, `joint` what is sent together; see `kerneltogether`. `journal` [entries, columns], where
    it has any, tells what was added up, and `noted` how far it is written; see `kerneljournal`.

    What the layout priced last cost, `priced[item]` its masks: `X_seconds` by row, `X_held` bytes
    by row and place, `copy_from` and `copy_to` the events between
    which a copy is held. `stale[term]` tells of the rows to price again; see `kernelchanges`. The
    fifth of `noted` is 0 before all this.
    """

    mask: Ints
    shards: Ints
    used: Ints
    local: Floats
    stored: Floats
    given: Floats
    leader: Ints
    delta: Floats
    reduced: Ints
    behind: NDArray[np.bool_]
    sum_axes: Ints
    sum_cost: Floats
    joint: Floats
    cut_axes: Ints
    cut_row: Ints
    cut_item: Ints
    cut_bytes: Floats
    cut_whole: NDArray[np.bool_]
    turn_row: Ints
    turn_axes: Ints
    turn_count: Floats
    turn_bytes: Floats
    turn_seconds: Floats
    ahead: Floats
    follows: Floats
    axis_place: Ints
    sum_reason: Ints
    sum_told: NDArray[np.bool_]
    priced: Ints
    stale: NDArray[np.bool_]
    root_seconds: Floats
    part_seconds: Floats
    stored_seconds: Floats
    edge_seconds: Floats
    local_seconds: Floats
    halo_seconds: Floats
    live_held: Floats
    copy_held: Floats
    copy_from: Ints
    copy_to: Ints
    sum_held: Floats
    summed_held: Floats
    journal: Floats
    noted: Ints


def apart(count: int, dtype: type[np.generic]) -> Any:
    """A short array of zeros that shares no cache line with another thread's."""
    return np.zeros(count + LINE // np.dtype(dtype).itemsize, dtype=dtype)[:count]


def new_scratch(tables: Tables, entries: int = 0) -> Scratch:
    """Working arrays that fit `tables`; with a journal where it is to have entries."""
    items = len(tables.item_group)
    moves = len(tables.part_computed) + len(tables.edge_to)
    groups, axes = len(tables.touch_start) - 1, len(tables.axis_size)
    return Scratch(
        mask=np.zeros(items, dtype=np.int64),
        shards=np.ones(items, dtype=np.int64),
        used=np.zeros(len(tables.unit_start) - 1, dtype=np.int64),
        local=np.zeros(len(tables.tensor_itemsize), dtype=np.float64),
        stored=np.zeros(len(tables.tensor_itemsize), dtype=np.float64),
        given=np.zeros(len(tables.tensor_itemsize), dtype=np.float64),
        leader=np.zeros(len(tables.kind_tensor), dtype=np.int64),
        delta=np.zeros((len(tables.event_position) + 1, PLACES)),
        reduced=np.zeros(len(tables.part_weight), dtype=np.int64),
        behind=np.zeros(len(tables.part_weight), dtype=np.bool_),
        sum_axes=np.zeros((len(tables.part_computed), 2), dtype=np.int64),
        sum_cost=np.zeros((len(tables.part_computed), 2, 3)),
        joint=np.zeros((len(tables.loop_runs), 2, tables.axes_wire.shape[1], 3)),
        cut_axes=np.zeros(len(tables.part_computed), dtype=np.int64),
        cut_row=np.zeros(len(tables.part_computed), dtype=np.int64),
        cut_item=np.zeros(len(tables.part_computed), dtype=np.int64),
        cut_bytes=np.zeros(len(tables.part_computed)),
        cut_whole=np.zeros(len(tables.part_computed), dtype=np.bool_),
        turn_row=np.zeros(moves, dtype=np.int64),
        turn_axes=np.zeros(moves, dtype=np.int64),
        turn_count=np.zeros(moves),
        turn_bytes=np.zeros(moves),
        turn_seconds=np.zeros(moves),
        ahead=np.zeros((groups, axes, axes)),
        follows=np.zeros((groups, axes, axes)),
        axis_place=np.tile(np.arange(axes, dtype=np.int64), (groups, 1)),
        sum_reason=np.zeros(len(tables.part_computed), dtype=np.int64),
        sum_told=np.ones(len(tables.part_computed), dtype=np.bool_),
        **_priced_last(tables),
        journal=np.zeros((entries, COLUMNS)),
        noted=apart(5, np.int64),
    )


def _priced_last(tables: Tables) -> dict[str, Any]:
    """What is kept of the layout priced last, and what of it to price again."""
    return {
        "priced": np.zeros(len(tables.item_group), dtype=np.int64),
        "stale": np.zeros(int(tables.term_first[-1]), dtype=np.bool_),
        "root_seconds": np.zeros(len(tables.root_weight)),
        "part_seconds": np.zeros(len(tables.part_weight)),
        "stored_seconds": np.zeros(len(tables.part_weight)),
        "edge_seconds": np.zeros(len(tables.edge_weight)),
        "local_seconds": np.zeros(len(tables.edge_weight)),
        "halo_seconds": np.zeros(len(tables.halo_weight)),
        "live_held": np.zeros((len(tables.live_tensor), PLACES)),
        "copy_held": np.zeros((len(tables.copy_tensor), PLACES)),
        "copy_from": np.zeros(len(tables.copy_tensor), dtype=np.int64),
        "copy_to": np.zeros(len(tables.copy_tensor), dtype=np.int64),
        "sum_held": np.zeros((len(tables.sum_row), PLACES)),
        "summed_held": np.zeros((len(tables.sum_row), PLACES)),
    }


def entries(tables: Tables) -> int:
    """How many entries one evaluation writes at most, and one: an edge or a result has up to 5."""
    return (
        1
        + len(tables.root_weight)
        + 6 * len(tables.part_computed)
        + 5 * len(tables.edge_to)
        + 2 * len(tables.edge_to)
        + len(tables.halo_weight)
        + len(tables.base_tensor)
        + len(tables.live_tensor)
        + len(tables.copy_tensor)
        + 2 * len(tables.sum_row)
        + len(tables.floor_tensor)
    )


def positioned(journal: Floats, event_position: Ints) -> Floats:
    """The journal with memory from and to positions of the schedule instead of events."""
    memory = np.isin(journal[:, TABLE], MEMORY)
    told = journal.copy()
    told[memory, KIND] = event_position[journal[memory, KIND].astype(np.int64)]
    told[memory, DETAIL] = event_position[journal[memory, DETAIL].astype(np.int64) + 1] - 1
    return told
