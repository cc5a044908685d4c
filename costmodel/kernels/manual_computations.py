"""Kernel for the regions of `shard_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.costmodel.kernels.journal import mark, note
from toast.costmodel.kernels.reshard import collective
from toast.costmodel.terms.journal import REGION, STATED, CollectiveReason

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

IN_REGION = int(CollectiveReason.IN_REGION)


@inner
def price_regions(t: Tables, s: Scratch) -> tuple[float, float]:
    """Seconds of the work of regions, and of the collectives that they ask for."""
    rows, compute, communication = t.manual_computations, 0.0, 0.0
    for row in range(len(rows.weight)):
        weight = rows.weight[row]
        spent = weight * rows.seconds[row]
        note(s.journal, REGION, row, 0, rows.bound[row], 0, weight, weight * rows.moved[row], spent)
        compute += spent
        for k in range(rows.sent_start[row], rows.sent_start[row + 1]):
            mark(s.journal, STATED, row, k - rows.sent_start[row])
            runs, kind, axes = weight * rows.sent_runs[k], rows.sent_kind[k], rows.sent_axes[k]
            communication += collective(t, s, kind, axes, rows.sent_size[k], runs, IN_REGION)
    return compute, communication
