"""What is read of buffers that an update in place has changed, as caches of a decode step are.

A buffer that comes from main memory is not on the chip because a part of it was just written. What
reads it behind the update fetches it, once for every run, whatever fits on the chip. Without these
rows the roofline of a fusion lets a small buffer wait on the chip, and the memory floor sees no
fusion that reads the argument whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.dynamic_update_slice import UPDATE_SLICE
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.buffers import loop_slots
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.memory_floor import RESHAPE, arguments_of, is_partial, read_whole
from toast.costmodel.terms.rows import CUTTING, WeightedRows
from toast.costmodel.terms.sources import Runs, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing

UpdatedReadRow = tuple[int, int, float]
"""(tensor that is read, tensor of what it was cut of or itself, the part of its runs that has to
fetch it whatever stays on the chip)."""


class UpdatedReads(NamedTuple):
    """The columns of the rows; see `UpdatedReadRow`."""

    weight: Floats
    tensor: Ints
    whole: Ints
    fetched: Floats


class UpdatedReadScratch(NamedTuple):
    """`stale` rows are to be priced again; `bytes` that main memory has to give for each."""

    stale: Bools
    bytes: Floats


class _Origins(NamedTuple):
    """By value what its buffer began as, and whether an update or a loop comes between.

    `whole` is what that was cut of, as it began, or itself.
    """

    start: Ints
    updated: Bools
    carried: Bools
    whole: Ints


def updated_read_rows(listing: Listing) -> WeightedRows[UpdatedReadRow]:
    """Each buffer once, by what reads it most often behind an update; the sources are those ops.

    The buffer began as an argument, or a loop carries it, or it is cut of either. Where the memory
    floor has the argument, to read it once is not counted again.
    """
    if not listing.fusion.profile.dynamic_update_slice.fetches_buffer:
        return WeightedRows()
    program, tensors, flow = listing.program, listing.layouts.value_tensor, listing.fusion.flow
    origins, given = _origins(program), arguments_of(program)
    floored = np.zeros(program.values, dtype=np.bool_)
    floored[read_whole(listing).value] = True
    use = _first_reads(listing, origins, given)
    op, value = program.use_op[use], program.use_value[use]
    start = origins.start[value]
    whole = origins.whole[start]
    parts = np.maximum(flow.elements[whole] / np.maximum(flow.elements[start], 1.0), 1.0)
    once = np.where(given[whole], np.minimum(parts, program.op_trips[op]), 0.0)
    trips = program.op_trips[op] - once * floored[whole]
    fetched = np.where(floored[whole], 0.0, once / program.op_trips[op])
    kept = np.flatnonzero(trips > 0.0)
    of = np.where(whole == start, tensors[value], tensors[whole])
    columns = [column[kept] for column in (tensors[value], of, fetched)]
    number, first = distinct_rows(columns[0], columns[1], columns[2].view(np.int64))
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return WeightedRows.of(rows, number, trips[kept], op[kept])


def _first_reads(listing: Listing, origins: _Origins, given: Bools) -> Ints:
    """For each buffer behind an update a use that reads all of it, one that runs most often."""
    program, use = listing.program, listing.fusion.launched.reads
    value = program.use_value[use]
    in_memory = given[origins.whole[origins.start[value]]] | origins.carried[value]
    kept = use[origins.updated[value] & in_memory & ~is_partial(program, use)]
    kept = kept[np.lexsort((kept, -program.op_trips[program.use_op[kept]]))]
    start = origins.start[program.use_value[kept]]
    return np.sort(kept[np.unique(start, return_index=True)[1]])


def _origins(program: Program) -> _Origins:
    """Where the buffer of each value begins, through updates in place, reshapes and loops."""
    made, itself = program.value_op, np.arange(program.values)
    first = _first_operand(program)
    updated = named(program, frozenset({UPDATE_SLICE}))[made]
    passing = updated | named(program, frozenset({RESHAPE}))[made]
    start, carried = np.where(passing, first, itself), np.zeros(program.values, dtype=np.bool_)
    for slot in loop_slots(program):
        inside = [slot.condition, slot.body, slot.result]
        start[inside], carried[inside] = slot.init, True
    while (start[start] != start).any():
        updated = updated | updated[start]
        carried = carried | carried[start]
        start = start[start]
    cut = named(program, CUTTING)[made]
    whole = np.where(cut, start[first], itself)
    carried = carried | (cut & carried[first])[start]
    return _Origins(start=start, updated=updated, carried=carried, whole=whole)


def _first_operand(program: Program) -> Ints:
    """By value the first operand of the op that makes it, or itself where that has none."""
    first = program.op_uses[program.value_op]
    has = first < program.op_uses[program.value_op + 1]
    found = np.arange(program.values)
    found[has] = program.use_value[first[has]]
    return found


def updated_read_columns(rows: WeightedRows[UpdatedReadRow], _listing: Listing) -> UpdatedReads:
    """The rows as columns."""
    return UpdatedReads(
        weight=floats(list(rows.values())),
        tensor=ints([tensor for tensor, _, _ in rows]),
        whole=ints([whole for _, whole, _ in rows]),
        fetched=floats([fetched for _, _, fetched in rows]),
    )


def updated_read_dependencies(reads: UpdatedReads, owners: OwningUnits) -> Pairs:
    """A read depends on its tensor and on that of the whole."""
    row = np.arange(len(reads.weight))
    return paired((row, owners.tensor[reads.tensor]), (row, owners.tensor[reads.whole]))


def updated_read_scratch(reads: UpdatedReads, stale: Bools) -> UpdatedReadScratch:
    """Working arrays for these rows."""
    return UpdatedReadScratch(stale=stale, bytes=np.zeros(len(reads.weight)))


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The ops that read the buffers."""
    return Runs.listed([((op,), runs) for op, runs in sources.of_row(UPDATED_READS, row)])


UPDATED_READS = Term(
    name="updated_reads",
    kernel="main_memory.updated_bytes",
    list_rows=updated_read_rows,
    columns=updated_read_columns,
    rows=lambda reads: len(reads.weight),
    dependencies=updated_read_dependencies,
    scratch=updated_read_scratch,
    entries=lambda reads: len(reads.weight),
    fused={Entry.UPDATED: _fused},
)
