"""Memory of what uses want in other layouts: copies, each alive from its first use to its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.passes.buffer_assignment import launched_at, positions_of_ops
from toast.costmodel.passes.rematerialization import gaps_between, widest
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, rows_of
from toast.costmodel.terms.journal import PLACES, Entry
from toast.costmodel.terms.reshards import reduced
from toast.costmodel.terms.sources import Sources, Stored
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What uses want, as the targets of `Edges`: over positions, and in what width it travels.

    `source` is the tensor of each value, `start` where its targets begin, and `there` whether it
    can be had where the last of its targets is wanted first. A copy can be let go of from
    `gap_first` to `gap_last`, if that is not before.
    """

    source: Ints
    start: Ints
    there: Bools
    tensor: Ints
    first: Ints
    last: Ints
    gap_first: Ints
    gap_last: Ints
    width: Ints


class CopyColumns(NamedTuple):
    """Values of one kind have a tensor (`kind_source`) and the same ones wanted of them.

    The wanted ones are `kind_tensor`, from `kind_start` on. Values of one kind whose copies are
    wanted over the same events are one row, `times` times; from `start` on it has for each copy the
    tensor, the events from `first` to `last` and in what width it travels (`narrow`). It can be let
    go of over the events from `gap_first` to `gap_last`, and where nothing reads it that shares it,
    if the value is `there`.
    """

    kind_source: Ints
    kind_start: Ints
    kind_tensor: Ints
    kind: Ints
    times: Floats
    there: Bools
    start: Ints
    tensor: Ints
    first: Ints
    last: Ints
    gap_first: Ints
    gap_last: Ints
    narrow: Ints


class CopyScratch(NamedTuple):
    """`stale` kinds are to be priced again, and of each kind the `leader` of every layout.

    That is the first that is the same in this state, -1 where it is that of the value. By copy
    and place the bytes that are counted (`held`), over the events from `first` to `last`, and the
    bytes that are `read` before the gap and behind it, from `read_first` to `read_last`.
    """

    stale: Bools
    leader: Ints
    held: Floats
    first: Ints
    last: Ints
    read: Floats
    read_first: Ints
    read_last: Ints


def reshard_copies(listing: Listing) -> Copies:
    """What uses want, in which the values they are of are alive besides."""
    program, layouts, wanted = listing.program, listing.layouts, listing.wanted
    at = launched_at(program, listing.fusion)
    low, high = positions_of_ops(program, listing.fusion, at)
    users = program.use_op[wanted.uses]
    rules, until = listing.fusion.profile.rematerialization, listing.buffers.until[wanted.valued]
    until = until if rules.recomputes else np.full(len(until), -1)
    rows = np.repeat(np.arange(len(wanted.tensor)), np.diff(wanted.use_start))
    gaps = gaps_between(
        np.concatenate([rows, rows]),
        np.concatenate([low[users], high[users]]),
        until[wanted.row],
    )
    first = reduced(np.minimum, low[users], wanted.use_start)
    last = reduced(np.maximum, high[users], wanted.use_start)
    gap_first, gap_last = widest(gaps, last)
    return Copies(
        source=layouts.value_tensor[wanted.valued],
        start=wanted.start,
        there=until >= reduced(np.maximum, first, wanted.start),
        tensor=wanted.tensor,
        first=first,
        last=last,
        gap_first=gap_first,
        gap_last=gap_last,
        width=listing.widths.of,
    )


def copy_columns(copies: Copies, listing: Listing) -> CopyColumns:
    """The rows as columns, between events."""
    schedule = listing.schedule
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
        there=copies.there,
        start=copies.start,
        tensor=copies.tensor,
        first=first,
        last=last,
        gap_first=schedule.event_from(copies.gap_first),
        gap_last=schedule.event_at(copies.gap_last),
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
        read=np.zeros((rows, 2)),
        read_first=np.zeros((rows, 2), dtype=np.int64),
        read_last=np.zeros((rows, 2), dtype=np.int64),
    )


def copy_dependencies(copies: CopyColumns, owners: OwningUnits) -> Pairs:
    """A kind of value depends on its own tensor and on all that is wanted of it."""
    kind = np.arange(len(copies.kind_source))
    return paired(
        (kind, owners.tensor[copies.kind_source]),
        (rows_of(copies.kind_start), owners.tensor[copies.kind_tensor]),
    )


def _stored(sources: Sources, row: int) -> Stored:
    """The value of a copy and the uses that it is for."""
    wanted = sources.listing.wanted
    values = sources.once("copies", lambda: wanted.value)
    first, end = wanted.use_start[row : row + 2].tolist()
    uses = tuple(wanted.uses[first:end].tolist())
    return Stored(int(sources.tables.copies.tensor[row]), [int(values[row])], uses)


COPIES = Term(
    name="copies",
    kernel="memory.find_peaks",
    list_rows=reshard_copies,
    columns=copy_columns,
    rows=lambda copies: len(copies.kind_source),
    dependencies=copy_dependencies,
    scratch=copy_scratch,
    entries=lambda copies: len(copies.tensor),
    stored={Entry.COPY: _stored},
    begins=lambda copies: copies.first,
)
