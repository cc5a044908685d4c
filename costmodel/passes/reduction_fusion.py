"""Reductions that a TPU computes beside what they read, in one kernel with several results.

A reduction of what a matrix product makes runs while its blocks are still on the chip. So does one
that needs the result of another over the same rows, as the sum of a softmax needs its maximum, if
whole rows fit there; XLA does so for products of 16 bits that are widened behind. Reductions of
one stored value share a pass over it.
"""

from __future__ import annotations

import numpy as np

from toast.costmodel.compilers.rules import ReductionFusionRules
from toast.costmodel.passes.reduction_fusion_kernel import Launches, merge_into
from toast.costmodel.program.dataflow import Flow
from toast.costmodel.program.launches import Kernels


def merge_reductions(flow: Flow, kernels: Kernels, rules: ReductionFusionRules) -> Kernels:
    """Each reduction that reads a product's result, or what one before it reads, in its kernel."""
    if not rules.merges:
        return kernels
    room = 1
    while True:
        found = _new_launches(flow, kernels, room)
        filled = len(kernels.ops), len(kernels.reads)
        if merge_into(flow, found, *filled, rules.longest_row, rules.lanes):
            break
        room *= 2
    kept = np.flatnonzero(found.alive)
    return Kernels.of(
        (found.ops, found.op_first[kept], found.op_end[kept]),
        (found.reads, found.read_first[kept], found.read_end[kept]),
        (kernels.dots, kernels.dot_start[kept], kernels.dot_start[kept + 1]),
    )


def _new_launches(flow: Flow, kernels: Kernels, room: int) -> Launches:
    """The kernels in pools that have room for as much again so many times."""
    home, none = np.full(len(flow.role), -1), np.full(len(flow.maker), -1)
    home[kernels.ops] = kernels.rows(kernels.op_start)
    ops, reads = (
        np.concatenate([pool, np.zeros(room * (len(pool) + 1), dtype=np.int64)])
        for pool in (kernels.ops, kernels.reads)
    )
    return Launches(
        op_first=kernels.op_start[:-1].copy(),
        op_end=kernels.op_start[1:].copy(),
        ops=ops,
        read_first=kernels.read_start[:-1].copy(),
        read_end=kernels.read_start[1:].copy(),
        reads=reads,
        dot_start=kernels.dot_start,
        dots=kernels.dots,
        alive=np.ones(len(kernels), dtype=np.bool_),
        home=home,
        passes=none,
        put=none.copy(),
    )
