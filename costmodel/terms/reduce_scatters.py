"""The arrays in which the kernels keep which sums are scattered, and why others are not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.partial_sums import PartialSums


class ReduceScatterScratch(NamedTuple):
    """By result the `axes` that one dimension takes of its sums, if these are all and several.

    Of such a result its row, the item that takes the axes, `bytes` of one, and whether it is summed
    `whole` for the order of axes. Of every result the `reason` why its sums are sent as they are
    (a `CollectiveReason`), and whether the written module has it `constrained` before its sums to
    the layout that its op makes; where `ordered` that depends on the order of axes.
    """

    axes: Ints
    row: Ints
    item: Ints
    bytes: Floats
    whole: Bools
    reason: Ints
    constrained: Bools
    ordered: Bools


def reduce_scatter_scratch(sums: PartialSums) -> ReduceScatterScratch:
    """Working arrays for the results of these rows."""
    results = len(sums.computed)
    axes, row, item, reason = (np.zeros(results, dtype=np.int64) for _ in range(4))
    whole, constrained, ordered = (np.zeros(results, dtype=np.bool_) for _ in range(3))
    size = np.zeros(results)
    return ReduceScatterScratch(axes, row, item, size, whole, reason, constrained, ordered)
