"""Lookups of rows: gathers by several indices, and how values lie in memory because of them."""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.program.dataflow import Bools

GATHER = "stablehlo.gather"
TILED, BY_ROW, SUMMED, TURNED, LEFT, BLOCKED = range(6)
WHOLE, GROUPED, INSTEAD, GIVEN, COPIED, UNCUT = range(6, 12)
"""How a value lies in memory: as fills tiles best, row by row, as a table does that rows are added
to; as that does only where it differs, or as fills tiles best only where that differs; only where
it is an image in blocks of pixels; whole, however it is sharded; an image with its groups of
channels apart, beside what it is or instead of it; as results of the program do; as fills tiles
best of what computes it, only where results do not lie so; or whole, where a product is not made
for the slice that is read of it."""
ALWAYS = (TILED, BY_ROW, SUMMED, WHOLE, GIVEN)
"""What is there in every state; the others are only where a layout differs."""
NO_ROWS, ROWS, TABLE = range(3)
"""If what a fusion moves lies row by row, always or as a table does."""


def looked_up(program: Program) -> Bools:
    """For each op whether it is a gather of several rows.

    One row is a slice at a place that is computed: compilers make it that.
    """
    found = np.zeros(program.ops, dtype=np.bool_)
    for op in program.ops_named(GATHER):
        table, indices = (program.shape(program.sources[use]) for use in program.uses_of(op)[:2])
        found[op] = int(np.prod(indices)) > len(table)
    return found
