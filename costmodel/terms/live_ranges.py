"""Memory of buffers: when each stored value is alive, over the schedule of fusions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.passes.buffer_assignment import LiveRanges, joined
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.lookups import ALWAYS
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, through
from toast.costmodel.terms.journal import AGAIN, LASTING, PLACES, Entry
from toast.costmodel.terms.manual_computations import manual_ranges
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS, mates_of
from toast.costmodel.terms.sources import Runs, Sources, Stored
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing


class LiveRangeColumns(NamedTuple):
    """Rows of `times` equal buffers, each alive from event `first` to event `last`.

    `width` is the part of the tensor's bytes that is stored, `lies` how (see `lookups`), `stay` how
    they may be on the chip, or `AGAIN` where the row is no memory, but the `part` of it that can be
    let go of (1 for all others). While the row `unsummed` of partial sums is summed over devices, a
    row is not there (-1 for none), unless they are added to others before, or those of a row `mate`
    or `scattered_mate` to them, as in `SumColumns`. Nor is it where it is made inside the sum of
    rows `within`, a tensor (-1: of none).
    """

    tensor: Ints
    first: Ints
    last: Ints
    width: Floats
    part: Floats
    lies: Ints
    stay: Ints
    times: Floats
    unsummed: Ints
    mate: Ints
    scattered_mate: Ints
    within: Ints


class LiveRangeScratch(NamedTuple):
    """`stale` rows are to be priced again; by row and place the bytes that are counted (`held`)."""

    stale: Bools
    held: Floats


def live_range_rows(listing: Listing) -> LiveRanges:
    """Buffers, what is copied beside them, and what regions keep."""
    return joined(listing.buffers.ranges, manual_ranges(listing))


def live_range_columns(live: LiveRanges, listing: Listing) -> LiveRangeColumns:
    """The rows as columns, between events."""
    schedule = listing.schedule
    first, last = schedule.event_at(live.first), schedule.event_at(live.last)
    first = np.where(live.again, schedule.event_from(live.first), first)
    partials = listing.of(PARTIAL_SUMS)
    row = np.full(listing.program.ops + 1, -1)
    row[partials.ops] = partials.row
    unsummed = row[live.unsummed]
    mate, scattered_mate = (np.append(column, -1)[unsummed] for column in mates_of(partials))
    return LiveRangeColumns(
        tensor=live.tensor,
        first=first,
        last=last,
        width=live.width,
        part=live.part,
        lies=live.lies,
        times=np.ones(len(first)),
        stay=np.where(live.again, AGAIN, LASTING * live.inner),
        unsummed=unsummed,
        mate=mate,
        scattered_mate=scattered_mate,
        within=live.within,
    )


def live_range_scratch(ranges: LiveRangeColumns, stale: Bools) -> LiveRangeScratch:
    """Working arrays for these rows."""
    return LiveRangeScratch(stale=stale, held=np.zeros((len(ranges.tensor), PLACES)))


def live_range_dependencies(ranges: LiveRangeColumns, owners: OwningUnits) -> Pairs:
    """A buffer depends on its tensor and table, and on the product or sum for which it is kept."""
    own = paired((np.arange(len(ranges.tensor)), owners.tensor[ranges.tensor]))
    joined_rows = ranges.unsummed, ranges.mate, ranges.scattered_mate
    products = [through(rows, owners.terms["partial_sums"]) for rows in joined_rows]
    sums = np.where(ranges.within < 0, ranges.tensor, ranges.within)
    rows = np.arange(len(sums))
    beside = paired((rows, owners.tensor[sums]), (rows, owners.table[ranges.tensor]))
    return np.concatenate([own, *products, beside])


def _stored(sources: Sources, row: int) -> Stored:
    """The value that stands for a buffer."""
    value = int(sources.listing.of(LIVE_RANGES).value[row])
    return Stored(tensor=int(sources.tables.live_ranges.tensor[row]), values=[value])


def _again(sources: Sources, _row: int, _place: int) -> Runs:
    """The ops that make what can be let go of, and those that read such copies."""
    program, wanted, copies = sources.program, sources.listing.wanted, sources.tables.copies
    values = sources.listing.of(LIVE_RANGES).value[sources.tables.live_ranges.stay == AGAIN]
    copied = np.flatnonzero(copies.gap_first <= copies.gap_last)
    readers = program.use_op[wanted.uses[wanted.use_start[copied]]]
    ops = np.unique(np.concatenate([program.value_op[values], readers]))
    return Runs.listed([((op,), 1.0) for op in ops.tolist()])


def _bound(bounds: Bounds) -> None:
    """Buffers without padding, less what can be let go of.

    What is there unless devices sum is left out: several units decide on it. So is what is there
    only where a layout differs, or unless it is made inside a sum of rows.
    """
    ranges = bounds.tables.live_ranges
    there = (ranges.first <= ranges.last) & np.isin(ranges.lies, ALWAYS)
    there &= ranges.within < 0
    for row in np.flatnonzero(there & (ranges.unsummed < 0)).tolist():
        tensor, size = int(ranges.tensor[row]), float(ranges.width[row])
        size = -size * float(ranges.part[row]) if ranges.stay[row] == AGAIN else size
        first, end = int(ranges.first[row]), int(ranges.last[row]) + 1
        bounds.hold(tensor, first, end, size * bounds.local(tensor))


LIVE_RANGES = Term(
    name="live_ranges",
    kernel="memory.find_peaks",
    list_rows=live_range_rows,
    columns=live_range_columns,
    rows=lambda ranges: len(ranges.tensor),
    dependencies=live_range_dependencies,
    scratch=live_range_scratch,
    entries=lambda ranges: len(ranges.tensor) + 1,
    fused={Entry.RECOMPUTED: _again},
    stored={Entry.LIVE: _stored},
    begins=lambda ranges: ranges.first[~ranges.again],
    bound=_bound,
)
