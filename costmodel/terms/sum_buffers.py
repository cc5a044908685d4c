"""Memory of partial sums, and of what they add up to where nothing else stores that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.all_reduce_reassociate import SCATTER
from toast.costmodel.passes.buffer_assignment import stored_inside, value_spans, written_over
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, through
from toast.costmodel.terms.journal import PLACES, Entry
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS, items_of, mates_of
from toast.costmodel.terms.sources import Sources, Stored
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Partial sums by op: the row of it, the tensor as computed, the position `at` which they are.

    What they add up to is read until `to`; `stored` tells whether that is stored in any case. Where
    they are added to others before they are summed, they are there over `waits`; `mate` and
    `scattered_mate` are the rows of one that is added to them, where the sum is whole and where it
    is scattered, or -1. `updates` is the tensor of a scatter whose sums nothing is added to, or -1.
    Where they are sent with the last sums of the step, they stay over the positions behind `late`.
    """

    op: Ints
    row: Ints
    mate: Ints
    scattered_mate: Ints
    tensor: Ints
    updates: Ints
    at: Ints
    to: Ints
    waits: tuple[Ints, Ints]
    late: Ints
    stored: Bools


class SumColumns(NamedTuple):
    """Rows of `times` equal sums, of one `row` of partial sums and of one tensor.

    The sums are there over the events [first, last], what they add up to over [first, until] unless
    it is `stored` anyway. If they are added to others before they are summed, or those of a row
    `mate` or `scattered_mate` are added to them, they are there over [wait_first, wait_last]
    instead. Where a scatter alone makes them, `updates` is the tensor that it scatters; else -1.
    What the last message of the step sends stays over [late_first, late_last] as well.
    """

    row: Ints
    mate: Ints
    scattered_mate: Ints
    tensor: Ints
    updates: Ints
    first: Ints
    last: Ints
    until: Ints
    wait_first: Ints
    wait_last: Ints
    late_first: Ints
    late_last: Ints
    times: Floats
    stored: Ints


class SumScratch(NamedTuple):
    """`stale` rows are to be priced again.

    By row and place the bytes that are counted of the sums (`held`), of their whole sum where that
    is not written over them (`beside_held`), of what they add up to (`summed_held`), and of what
    waits for the last message (`late_held`); the first are held over the events from `held_first`
    to `held_last`.
    """

    stale: Bools
    held: Floats
    held_first: Ints
    held_last: Ints
    beside_held: Floats
    summed_held: Floats
    late_held: Floats


def sum_buffers(listing: Listing) -> Sums:
    """Partial sums, and whether the result is stored where there are none to add up.

    Where it is not, what they add up to stays until something is computed of it, or less where
    that is written over it.
    """
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    partials, (_, latest) = listing.of(PARTIAL_SUMS), listing.positions
    inside = stored_inside(program, fusion)
    single = np.diff(program.op_values)[partials.ops] == 1
    op, row = partials.ops[single], partials.row[single]
    value, position = program.op_values[op], fusion.position[op]
    stored = fusion.written[value] & ~inside[value]
    at = np.where(stored, position, np.minimum(position, latest[op]))
    end = latest[op] - written_over(program, fusion, listing.reused)[op]
    _, read = value_spans(program, fusion)
    before = np.array([one.before for one in partials.rows], dtype=np.int64).reshape(-1, 2)
    mates = [column[row] for column in mates_of(partials)]
    joined = (np.stack([*mates, *before[row].T]) >= 0).any(axis=0)
    begin = np.where(joined & ~stored, np.maximum(at, latest[op]), at)
    return Sums(
        op=op,
        row=row,
        mate=mates[0],
        scattered_mate=mates[1],
        tensor=layouts.result_tensor[value],
        updates=np.where(joined, -1, _updates(program, layouts)[op]),
        at=at,
        to=np.maximum(at, end),
        waits=(begin, np.where(joined & stored, np.maximum(at, read[value]), begin)),
        late=np.where(stored, np.maximum(at, read[value]), np.maximum(at, end)),
        stored=stored | (end < at),
    )


def _updates(program: Program, layouts: Layouts) -> Ints:
    """By op the tensor that it scatters, or -1."""
    found = np.full(program.ops, -1)
    for op in program.ops_named(SCATTER):
        found[op] = layouts.use_tensor[program.uses_of(op)[-1]]
    return found


def sum_columns(sums: Sums, listing: Listing) -> SumColumns:
    """The rows as columns, between events."""
    schedule = listing.schedule
    at, to = schedule.event_at(sums.at), schedule.event_at(sums.to)
    first, last = (schedule.event_at(position) for position in sums.waits)
    late = schedule.event_at(sums.late)
    return SumColumns(
        row=sums.row,
        mate=sums.mate,
        scattered_mate=sums.scattered_mate,
        tensor=sums.tensor,
        updates=sums.updates,
        first=at,
        last=at,
        until=to,
        wait_first=first,
        wait_last=last,
        late_first=late + 1,
        late_last=np.full(len(at), at.max(initial=0)),
        times=np.ones(len(at)),
        stored=sums.stored.astype(np.int64),
    )


def sum_scratch(sums: SumColumns, stale: Bools) -> SumScratch:
    """Working arrays for these rows."""
    shape = len(sums.row), PLACES
    return SumScratch(
        stale=stale,
        held=np.zeros(shape),
        held_first=sums.first.copy(),
        held_last=sums.last.copy(),
        beside_held=np.zeros(shape),
        summed_held=np.zeros(shape),
        late_held=np.zeros(shape),
    )


def sum_dependencies(sums: SumColumns, owners: OwningUnits) -> Pairs:
    """Memory of sums depends on their tensor and on all that their row of partial sums does."""
    own = paired((np.arange(len(sums.row)), owners.tensor[sums.tensor]))
    scatters = np.flatnonzero(sums.updates >= 0)
    updates = paired((scatters, owners.tensor[sums.updates[scatters]]))
    rows = owners.terms["partial_sums"]
    mates = through(sums.mate, rows), through(sums.scattered_mate, rows)
    return np.concatenate([own, updates, through(sums.row, rows), *mates])


def _stored(sources: Sources, row: int) -> Stored:
    """The first result of an op, as it is before it is summed."""
    op = int(sources.listing.of(SUMS).op[row])
    return Stored(int(sources.tables.sums.tensor[row]), [sources.results(op)[0]])


def _stored_sum(sources: Sources, row: int) -> Stored:
    """The first result of an op, as its sums add up to it."""
    sums, rows = sources.tables.sums, sources.tables.partial_sums
    tensor = int(rows.defined[rows.result_start[int(sums.row[row])]])
    return _stored(sources, row)._replace(tensor=tensor)


def _bound(bounds: Bounds) -> None:
    """What partial sums add up to, where nothing else stores it and one unit has their items."""
    sums, rows = bounds.tables.sums, bounds.tables.partial_sums
    for k in np.flatnonzero(sums.stored == 0).tolist():
        row, tensor, first = int(sums.row[k]), int(sums.tensor[k]), int(sums.first[k])
        if rows.loop_trips[row] > 1.0:
            continue
        reduced = bounds.axes(items_of(rows, row), bounds.unit_of_tensor(tensor))
        if reduced is not None:
            bounds.hold(tensor, first, first + 1, (reduced > 0) * bounds.local(tensor))


SUMS = Term(
    name="sums",
    kernel="memory.find_peaks",
    list_rows=sum_buffers,
    columns=sum_columns,
    rows=lambda sums: len(sums.row),
    dependencies=sum_dependencies,
    scratch=sum_scratch,
    entries=lambda sums: 4 * len(sums.row),
    stored={Entry.SUM: _stored, Entry.SUMMED: _stored_sum},
    begins=lambda sums: sums.at,
    bound=_bound,
)
