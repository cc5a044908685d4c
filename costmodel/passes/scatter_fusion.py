"""Rows that a TPU adds up without storing them: it makes them inside the sum.

A sum of rows that fits on the chip stays there while rows are added to it. libtpu then makes each
row when it is added: what is computed elementwise for nothing else, and the rows that are looked up
for that alone. So messages between the nodes of a graph take no memory. Whether a sum fits depends
on how it is sharded, which the kernels see (`incremental.sums_inside`).
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.row_layouts import adds_rows
from toast.costmodel.passes.scatter_expander import OPERANDS
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.program.op_traits import Role
from toast.costmodel.program.sharding_units import Layouts

NOT_ADDED = -1


def added_inside(program: Program, fusion: Fusion, columns: int) -> Ints:
    """For each value the sum of rows inside which it may be made, or -1.

    It lies in rows then: it is made of rows that are looked up, or its rows fill the `columns` of
    tiles. All else is copied into rows first.
    """
    found = np.full(program.values, NOT_ADDED)
    if fusion.profile.scatter_fusion.summed_bytes == 0.0:
        return found
    roots, lookups = fusion.roots, looked_up(program)
    number = np.full(program.ops, -1)
    number[roots.ops] = np.arange(len(roots))
    readers = np.bincount(program.use_value[roots.reads], minlength=program.values)
    readers[program.use_value[[result.use for result in program.results]]] += 1
    for op in np.flatnonzero(adds_rows(program, fusion)).tolist():
        uses = program.uses_of(op)
        added = program.sources[uses[-1]]
        pending = [added] if len(uses) == OPERANDS and program.shape(added) else []
        while pending:
            value = pending.pop()
            maker = program.makers[value]
            if readers[value] != 1 or number[maker] < 0:
                continue
            root, fills = roots[int(number[maker])], program.shape(value)[-1] % columns == 0
            rows = [program.sources[use] for use in root.reads]
            rows = [read for read in rows if lookups[program.makers[read]]]
            elementwise = fusion.flow.role[maker] == Role.FUSIBLE and not root.contractions
            if lookups[maker] or (elementwise and (rows or fills)):
                found[value] = program.values_of(op)[0]
                pending += rows if elementwise else []
    return found


def sum_tensors(layouts: Layouts, within: Ints) -> Ints:
    """The tensors of such sums, as devices make them; -1 where there is none."""
    return np.where(within < 0, NOT_ADDED, layouts.result_tensor[within])
