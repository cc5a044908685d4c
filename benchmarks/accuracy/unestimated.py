"""What a compiler's estimate of a step lacks: lookups of rows, sums of rows, and sorts.

libtpu gives these no cycles, so what is priced for them has nothing to be compared with. It does
estimate those that it makes loops of.
"""

from __future__ import annotations

import numpy as np

from toast.costmodel.explain import explain
from toast.costmodel.passes.row_layouts import adds_rows
from toast.costmodel.passes.scatter_expander import launches_each
from toast.costmodel.program.dataflow import named
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.resolved import ResolvedPlan

SORTS = frozenset({"stablehlo.sort"})


def unestimated_seconds(resolved: ResolvedPlan) -> float:
    """The part of a plan's computation that is priced for fusions of nothing but such ops."""
    evaluator = resolved.evaluator
    program, fusion = evaluator.listing.program, evaluator.fusion
    lacking = looked_up(program) | adds_rows(program, fusion) | named(program, SORTS)
    rules = fusion.profile.scatter_expander
    for op in np.flatnonzero(lacking).tolist():
        lacking[op] = launches_each(program, op, rules) == 0.0
    return sum(
        row.seconds
        for row in explain(resolved).fusions
        if row.sources and not row.unfused and lacking[list(row.sources[0][0])].all()
    )
