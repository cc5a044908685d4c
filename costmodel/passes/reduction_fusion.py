"""Reductions that a TPU computes beside what they read, in one fusion with several results.

A reduction of what a matrix product makes runs while its blocks are still on the chip. So does one
that needs the result of another over the same rows, as the sum of a softmax needs its maximum; XLA
does so for products of 16 bits that are widened behind. Sums over all examples, which a batch norm
takes, are not there before the last block. Reductions of one stored value share a pass over it,
with what makes it element by element. What is computed once of a product, as its error function,
is a result beside it too.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import ReductionFusionRules
from toast.costmodel.passes.reduction_fusion_kernel import Launches, merge_into
from toast.costmodel.passes.scatter_expander import POOLING
from toast.costmodel.passes.space_to_batch import CONVOLUTION, REDUCE
from toast.costmodel.program.dataflow import Bools, Flow, named
from toast.costmodel.program.launches import LaunchedFusions
from toast.costmodel.program.op_traits import Role


def merge_reductions(
    program: Program,
    flow: Flow,
    launched: LaunchedFusions,
    once: Bools,
    rules: ReductionFusionRules,
) -> LaunchedFusions:
    """Each reduction in the fusion that makes what it reads, or in one before that reduces it.

    So is what elementwise ops make that are computed `once`. A pool is a pass of its own, which
    reductions may join.
    """
    if not rules.merges:
        return launched
    reduces = (flow.role == Role.REDUCE) & ~named(program, frozenset({POOLING}))
    room, beside = 1, reduces | (once & (flow.role == Role.FUSIBLE))
    by_row = _by_row(program)
    while True:
        found = _new_launches(flow, launched, beside, by_row, room)
        filled = len(launched.ops), len(launched.reads)
        if merge_into(flow, found, *filled, rules.joins_passes, rules.keeps_wide_rows):
            break
        room *= 2
    kept = np.flatnonzero(found.alive)
    return LaunchedFusions.of(
        (found.ops, found.op_first[kept], found.op_end[kept]),
        (found.reads, found.read_first[kept], found.read_end[kept]),
        (launched.dots, launched.dot_start[kept], launched.dot_start[kept + 1]),
    )


def _by_row(program: Program) -> Bools:
    """For each op if it ends with a row: it is no convolution, nor a sum that keeps columns."""
    found = ~named(program, frozenset({CONVOLUTION}))
    for op in program.ops_named(REDUCE):
        last = program.use_names(program.uses_of(op)[0])[-1:].tolist()
        found[op] = last != program.def_names(program.values_of(op)[0])[-1:].tolist()
    return found


def _new_launches(
    flow: Flow, launched: LaunchedFusions, beside: Bools, by_row: Bools, room: int
) -> Launches:
    """The fusions in pools that have room for as much again so many times."""
    home, none = np.full(len(flow.role), -1), np.full(len(flow.maker), -1)
    home[launched.ops] = launched.rows(launched.op_start)
    ops, reads = (
        np.concatenate([pool, np.zeros(room * (len(pool) + 1), dtype=np.int64)])
        for pool in (launched.ops, launched.reads)
    )
    return Launches(
        op_first=launched.op_start[:-1].copy(),
        op_end=launched.op_start[1:].copy(),
        ops=ops,
        read_first=launched.read_start[:-1].copy(),
        read_end=launched.read_start[1:].copy(),
        reads=reads,
        dot_start=launched.dot_start,
        dots=launched.dots,
        alive=np.ones(len(launched), dtype=np.bool_),
        beside=beside,
        by_row=by_row,
        home=home,
        passes=none,
        put=none.copy(),
    )
