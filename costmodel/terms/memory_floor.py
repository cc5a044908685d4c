"""What of a step's arguments and results has to pass through the main memory, whatever is on chip.

Arguments are in main memory before the step and results after it. A compiler's estimate lets what
fits on the chip wait there for nothing; a chip has to fetch it once, and to store what it leaves.
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
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.rows import CUTTING, SLICING, UPDATING, WeightedRows, of_role
from toast.costmodel.terms.sources import Runs, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing


RESHAPE = "stablehlo.reshape"


class Floors(NamedTuple):
    """`times` arguments and results of a `tensor` that pass through main memory, if `counted`."""

    tensor: Ints
    times: Floats
    counted: bool


def floor_rows(listing: Listing) -> WeightedRows[int]:
    """Tensors of arguments that a fusion reads whole and of results that one writes whole.

    Weights count how many there are; the sources are the ops that read or write them. What is only
    looked up in is left out; of what is only cut the parts count, and of what is updated in place
    the update. Of the arguments that a loop carries the first is left out; the others count.
    """
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    read = read_whole(listing)
    made = np.unique(program.use_value[[result.use for result in program.results]])
    part, (cut, shares) = _updates(program, made), _cuts(listing, read.value)
    made = made[fusion.written[made] & ~_updating(program)[program.value_op[made]]]
    moved = np.concatenate([read.value, made, cut])
    tensor = np.concatenate([layouts.value_tensor[moved], layouts.use_tensor[part]])
    number, first = distinct_rows(tensor)
    sources = np.concatenate([read.op, program.value_op[made], program.value_op[cut]])
    times = np.concatenate([np.ones(len(read.value) + len(made)), shares, np.ones(len(part))])
    sources = np.concatenate([sources, program.use_op[part]])
    return WeightedRows.of(tensor[first].tolist(), number, times, sources)


def _updates(program: Program, made: Ints) -> Ints:
    """The uses of what is written into the buffers that are results."""
    op = program.value_op[made]
    return program.op_uses[op[named(program, frozenset({UPDATE_SLICE}))[op]]] + 1


def _cuts(listing: Listing, read: Ints) -> tuple[Ints, Floats]:
    """What is cut outside of loops of arguments that nothing reads whole; how often each counts.

    Parts that are more than the whole together overlap: it is read once. What is updated has rows
    of its own (`updated_reads`).
    """
    program, elements = listing.program, listing.fusion.flow.elements
    given = arguments_of(program)
    given[read] = False
    op = np.flatnonzero(named(program, CUTTING) & (program.op_trips == 1.0))
    op = op[~_updated(program)[program.op_values[op]]]
    whole = program.use_value[program.op_uses[op]]
    op, whole = op[given[whole]], whole[given[whole]]
    cut = program.op_values[op]
    together = np.bincount(whole, weights=elements[cut], minlength=program.values)[whole]
    return cut, np.minimum(1.0, elements[whole] / np.maximum(together, 1.0))


def _updated(program: Program) -> Bools:
    """Values of which a part is updated, as they are or reshaped."""
    found = np.zeros(program.values, dtype=np.bool_)
    update = np.flatnonzero(named(program, frozenset({UPDATE_SLICE})))
    found[program.use_value[program.op_uses[update]]] = True
    reshape = np.flatnonzero(named(program, frozenset({RESHAPE})))
    found[program.use_value[program.op_uses[reshape]]] |= found[program.op_values[reshape]]
    return found


class ReadWhole(NamedTuple):
    """Arguments that are read whole, and the first op that does."""

    value: Ints
    op: Ints


def read_whole(listing: Listing) -> ReadWhole:
    """Arguments that some fusion reads whole."""
    program, use = listing.program, listing.fusion.launched.reads
    op, value = program.use_op[use], program.use_value[use]
    read = np.flatnonzero(arguments_of(program)[value] & ~is_partial(program, use))
    read = read[np.sort(np.unique(value[read], return_index=True)[1])]
    return ReadWhole(value=value[read], op=op[read])


def arguments_of(program: Program) -> Bools:
    """For each value whether it is an argument."""
    given = np.zeros(program.values, dtype=np.bool_)
    given[[argument.value for argument in program.arguments]] = True
    return given


def is_partial(program: Program, uses: Ints) -> Bools:
    """Whether each use looks up in what it reads, slices it, updates it or passes it on."""
    op = program.use_op[uses]
    looking = _updating(program) | named(program, SLICING)
    return np.asarray(looking[op] & (uses == program.op_uses[op]))


def _updating(program: Program) -> Bools:
    """Ops that update their first operand in place, or pass it on."""
    return named(program, frozenset(UPDATING)) | of_role(program, Role.NOTHING)


def floor_columns(rows: WeightedRows[int], _listing: Listing) -> Floors:
    """The rows as columns."""
    return Floors(tensor=ints(list(rows)), times=floats(list(rows.values())), counted=True)


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The ops that read or write the tensors."""
    return Runs.listed([((op,), runs) for op, runs in sources.of_row(FLOORS, row)])


FLOORS = Term(
    name="floors",
    kernel="main_memory.price_main_memory",
    list_rows=floor_rows,
    columns=floor_columns,
    rows=lambda floors: len(floors.tensor),
    entries=lambda floors: len(floors.tensor),
    fused={Entry.FLOOR: _fused},
)
