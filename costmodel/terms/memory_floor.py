"""What of a step's arguments and results has to pass through the main memory, whatever is on chip.

Arguments are in main memory before the step and results after it. A compiler's estimate lets what
fits on the chip wait there for nothing; a chip has to fetch it once, and to store what it leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.dataflow import named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.op_traits import Role
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.rows import SLICING, UPDATING, Rows, of_role


class Floors(NamedTuple):
    """`times` arguments and results of a `tensor` that pass through main memory, if `counted`."""

    tensor: Ints
    times: Floats
    counted: bool


def floor_rows(program: Program, layouts: Layouts, fusion: Fusion) -> Rows[int]:
    """Tensors of arguments that a kernel reads whole and of results that one writes whole.

    Weights count how many there are; the sources are the ops that read or write them. What is only
    looked up in, sliced or updated in place is left out, as is what a loop carries.
    """
    use = fusion.kernels.reads
    op, value = program.use_op[use], program.use_value[use]
    nothing = of_role(program, Role.NOTHING)
    updating = named(program, frozenset(UPDATING)) | nothing
    part = (updating | named(program, SLICING))[op] & (use == program.op_uses[op])
    given = np.zeros(program.values, dtype=np.bool_)
    given[[argument.value for argument in program.arguments]] = True
    read = np.flatnonzero(given[value] & ~part)
    read = read[np.sort(np.unique(value[read], return_index=True)[1])]
    made = np.unique(program.use_value[[result.use for result in program.results]])
    made = made[fusion.written[made] & ~updating[program.value_op[made]]]
    tensor = layouts.value_tensor[np.concatenate([value[read], made])]
    number, first = distinct_rows(tensor)
    sources = np.concatenate([op[read], program.value_op[made]])
    return Rows.of(tensor[first].tolist(), number, np.ones(len(number)), sources)


def floor_columns(rows: Rows[int]) -> Floors:
    """The rows as columns."""
    return Floors(tensor=ints(list(rows)), times=floats(list(rows.values())), counted=True)
