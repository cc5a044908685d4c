"""Memory of what uses want in other layouts: copies, each alive from its first use to its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.fusion_kernel import spread_spans
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import Owners, Pairs, paired, rows_of
from toast.costmodel.terms.journal import PLACES
from toast.costmodel.terms.reshards import Edges, Widths, reduced
from toast.costmodel.terms.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What uses want, as the targets of `Edges`: over positions, and in what width it travels.

    `source` is the tensor of each value, `start` where its targets begin.
    """

    source: Ints
    start: Ints
    tensor: Ints
    first: Ints
    last: Ints
    width: Ints


class CopyColumns(NamedTuple):
    """Values of one kind have a tensor (`kind_source`) and the same ones wanted of them.

    The wanted ones are `kind_tensor`, from `kind_start` on. Values of one kind whose copies are
    wanted over the same events are one row, `times` times; from `start` on it has for each copy the
    tensor, the events from `first` to `last`, the positions from `begin` to `end` and in what width
    it travels (`narrow`).
    """

    kind_source: Ints
    kind_start: Ints
    kind_tensor: Ints
    kind: Ints
    times: Floats
    start: Ints
    tensor: Ints
    first: Ints
    last: Ints
    begin: Ints
    end: Ints
    narrow: Ints


class CopyScratch(NamedTuple):
    """`stale` kinds are to be priced again, and of each kind the `leader` of every layout.

    That is the first that is the same in this state, -1 where it is that of the value. By copy
    and place the bytes that are counted (`held`), over the events from `first` to `last`.
    """

    stale: Bools
    leader: Ints
    held: Floats
    first: Ints
    last: Ints


def reshard_copies(
    program: Program, layouts: Layouts, wanted: Edges, widths: Widths, low: Ints, high: Ints
) -> Copies:
    """What uses want; `low` and `high` are by op the first and last position that computes it."""
    users = program.use_op[wanted.uses]
    return Copies(
        source=layouts.value_tensor[wanted.valued],
        start=wanted.start,
        tensor=wanted.tensor,
        first=reduced(np.minimum, low[users], wanted.use_start),
        last=reduced(np.maximum, high[users], wanted.use_start),
        width=widths.of,
    )


def positions_of_ops(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """For each op the earliest and the latest position of the fusions that compute it."""
    low, high = np.full(program.ops, program.ops), np.full(program.ops, -1)
    stored = np.zeros(program.ops, dtype=np.bool_)
    stored[fusion.roots.ops] = True
    spread_spans(
        program.op_uses,
        program.value_op[program.use_value],
        ~fusion.written[program.use_value],
        stored,
        fusion.position,
        low,
        high,
    )
    return low, high


def copy_columns(copies: Copies, schedule: Schedule) -> CopyColumns:
    """The rows as columns, between events."""
    first, last = schedule.event_at(copies.first), schedule.event_at(copies.last)
    wanted, _ = distinct(copies.start, copies.tensor)
    kind, distinct_kinds = distinct_rows(copies.source, wanted)
    counts = np.diff(copies.start)[distinct_kinds]
    return CopyColumns(
        kind_source=copies.source[distinct_kinds],
        kind_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        kind_tensor=copies.tensor[spans(copies.start[distinct_kinds], counts)],
        kind=kind,
        times=np.ones(len(kind)),
        start=copies.start,
        tensor=copies.tensor,
        first=first,
        last=last,
        begin=schedule.position[first],
        end=schedule.position[last + 1],
        narrow=copies.width,
    )


def copy_scratch(copies: CopyColumns, stale: Bools) -> CopyScratch:
    """Working arrays for these rows."""
    rows = len(copies.tensor)
    return CopyScratch(
        stale=stale,
        leader=np.zeros(len(copies.kind_tensor), dtype=np.int64),
        held=np.zeros((rows, PLACES)),
        first=np.zeros(rows, dtype=np.int64),
        last=np.zeros(rows, dtype=np.int64),
    )


def copy_dependencies(copies: CopyColumns, owner: Owners) -> Pairs:
    """A kind of value depends on its own tensor and on all that is wanted of it."""
    kind = np.arange(len(copies.kind_source))
    return paired(
        (kind, owner.tensor[copies.kind_source]),
        (rows_of(copies.kind_start), owner.tensor[copies.kind_tensor]),
    )
