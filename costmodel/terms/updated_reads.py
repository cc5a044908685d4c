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
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.op_traits import Role
from toast.costmodel.terms.dependents import Pairs, Reach, paired
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.memory_floor import arguments_of, is_partial, read_whole
from toast.costmodel.terms.rows import CUTTING, Rows, of_role
from toast.costmodel.terms.sources import Runs, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing

RESHAPE = "stablehlo.reshape"

UpdatedReadRow = tuple[int, int, bool]
"""(tensor that is read, tensor of what it was cut of or itself, if that is an argument)."""


class UpdatedReads(NamedTuple):
    """The columns of the rows; see `UpdatedReadRow`."""

    weight: Floats
    tensor: Ints
    whole: Ints
    given: Ints


class UpdatedReadScratch(NamedTuple):
    """`stale` rows are to be priced again; `bytes` that main memory has to give for each."""

    stale: Bools
    bytes: Floats


class _Origins(NamedTuple):
    """By value what its buffer began as, if an update comes between, and what that was cut of."""

    start: Ints
    updated: Bools
    whole: Ints


def updated_read_rows(listing: Listing) -> Rows[UpdatedReadRow]:
    """Each buffer once, by what reads it most often behind an update; the sources are those ops.

    The buffer is an argument, what a loop carries, or what is cut of either. Arguments that are
    read whole without the update count in the memory floor.
    """
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    origins = _origins(program)
    given = arguments_of(program)
    carried = of_role(program, Role.NOTHING)[program.value_op]
    in_memory = carried[origins.whole] & ~program.constant[origins.whole]
    in_memory[read_whole(listing).value] = False
    use = fusion.launched.reads
    op, value = program.use_op[use], program.use_value[use]
    start = origins.start[value]
    kept = origins.updated[value] & in_memory[start] & ~is_partial(program, use)
    op, value, start = op[kept], value[kept], start[kept]
    often = np.lexsort((op, -program.op_trips[op]))
    first = often[np.sort(np.unique(start[often], return_index=True)[1])]
    op, value, start = op[first], value[first], start[first]
    whole = origins.whole[start]
    cut = whole != start
    tensor = layouts.value_tensor[value]
    of = np.where(cut, layouts.value_tensor[whole], tensor)
    number, firsts = distinct_rows(tensor, of, given[whole])
    columns = (column[firsts].tolist() for column in (tensor, of, given[whole]))
    return Rows.of(list(zip(*columns, strict=True)), number, program.op_trips[op], op)


def _origins(program: Program) -> _Origins:
    """Where the buffer of each value begins, through updates in place and reshapes."""
    made = program.value_op
    updates = named(program, frozenset({UPDATE_SLICE}))[made]
    passing = updates | named(program, frozenset({RESHAPE}))[made]
    start = np.where(passing, _first_operand(program), np.arange(program.values))
    updated = updates.copy()
    while (start[start] != start).any():
        updated |= updated[start]
        start = start[start]
    cut = named(program, CUTTING)[made]
    whole = np.where(cut, start[_first_operand(program)], np.arange(program.values))
    return _Origins(start=start, updated=updated, whole=whole)


def _first_operand(program: Program) -> Ints:
    """By value the first operand of the op that makes it, or itself where that has none."""
    first = program.op_uses[program.value_op]
    has = first < program.op_uses[program.value_op + 1]
    found = np.arange(program.values)
    found[has] = program.use_value[first[has]]
    return found


def updated_read_columns(rows: Rows[UpdatedReadRow], _listing: Listing) -> UpdatedReads:
    """The rows as columns."""
    return UpdatedReads(
        weight=floats(list(rows.values())),
        tensor=ints([tensor for tensor, _, _ in rows]),
        whole=ints([whole for _, whole, _ in rows]),
        given=ints([given for _, _, given in rows]),
    )


def updated_read_dependencies(reads: UpdatedReads, reach: Reach) -> Pairs:
    """A read depends on its tensor and on that of the whole."""
    row = np.arange(len(reads.weight))
    return paired((row, reach.tensor[reads.tensor]), (row, reach.tensor[reads.whole]))


def updated_read_scratch(reads: UpdatedReads, stale: Bools) -> UpdatedReadScratch:
    """Working arrays for these rows."""
    return UpdatedReadScratch(stale=stale, bytes=np.zeros(len(reads.weight)))


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The ops that read the buffers."""
    rows = sources.once(
        "updated_reads", lambda: list(sources.listing.of(UPDATED_READS).sources.values())
    )
    return Runs.listed([((op,), runs) for op, runs in rows[row]])


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
