"""A program as the kernels that go from op to op read it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints, Program
from toast.analysis.records import record
from toast.analysis.types import itemsize
from toast.costmodel.program.op_traits import LAYOUT, role

Bools = NDArray[np.bool_]


@record
class Flow(NamedTuple):
    """By op `role`, if it is of `LAYOUT`, `trips`, starts of `uses` and of `values`.

    By use `source` and `user`; by value `maker`, starts into `reader`, numbers that are equal for
    equal `shape` and `dtype`, `elements`, bytes of an element (`width`) and of the whole, and if it
    is `constant`.
    """

    role: Ints
    layout: Bools
    trips: Floats
    uses: Ints
    values: Ints
    source: Ints
    user: Ints
    maker: Ints
    reader_start: Ints
    reader: Ints
    shape: Ints
    dtype: Ints
    elements: Floats
    width: Floats
    bytes: Floats
    constant: Bools


def flow_of(program: Program) -> Flow:
    """The arrays of a program."""
    starts, readers = program.readers
    elements = program.of_shapes(math.prod, np.float64)
    width = np.array([itemsize(dtype) for dtype in program.dtypes])[program.value_type]
    return Flow(
        role=np.array([role(name) for name in program.names], dtype=np.int64)[program.op_name],
        layout=named(program, LAYOUT),
        trips=program.op_trips,
        uses=program.op_uses,
        values=program.op_values,
        source=program.use_value,
        user=program.use_op,
        maker=program.value_op,
        reader_start=starts,
        reader=readers,
        shape=program.value_shape,
        dtype=program.value_type,
        elements=elements,
        width=width,
        bytes=elements * width,
        constant=program.constant,
    )


def named(program: Program, names: frozenset[str]) -> Bools:
    """For each op whether its name is one of these."""
    return np.array([name in names for name in program.names], dtype=np.bool_)[program.op_name]
