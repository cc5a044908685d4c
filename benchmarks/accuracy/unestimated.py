"""What a compiler's estimate of a step lacks: lookups and sums of rows, sorts, slopes of maxima.

libtpu gives these no cycles, so what is priced for them has nothing to be compared with. It does
estimate those that it makes loops of.
"""

from __future__ import annotations

import numpy as np

from toast.costmodel.evaluator import Evaluator
from toast.costmodel.passes.row_layouts import adds_rows
from toast.costmodel.passes.scatter_expander import launches_each
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.resolved import ResolvedPlan
from toast.costmodel.terms.fusions import FUSIONS

LEFT_OUT = frozenset({"stablehlo.sort", "stablehlo.select_and_scatter"})


def unestimated_seconds(resolved: ResolvedPlan) -> float:
    """The part of a plan's computation that is priced for fusions of nothing but such ops."""
    evaluator, seconds = resolved.evaluator, resolved.scratch.fusions.seconds
    lacking, launched = _lacking(evaluator), evaluator.fusion.launched
    found = 0.0
    for row, (sources, _) in enumerate(evaluator.listing.of(FUSIONS).grouped()):
        moves = evaluator.tables.fusions.tensor_start[row : row + 2]
        if moves[0] < moves[1] and lacking[list(launched[int(sources[0])].ops)].all():
            found += float(seconds[row])
    return found


def _lacking(evaluator: Evaluator) -> Bools:
    """For each op whether the compiler gives it no cycles."""
    program, fusion = evaluator.listing.program, evaluator.fusion
    found: Bools = looked_up(program) | adds_rows(program, fusion) | named(program, LEFT_OUT)
    for op in np.flatnonzero(found).tolist():
        found[op] = launches_each(program, op, fusion.profile.scatter_expander) == 0.0
    return found
