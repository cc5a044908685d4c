"""Which partial sums are only added to others, so that devices sum them once."""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.compilers.rules import AllReduceReassociateRules
from toast.costmodel.passes.fusion_chains import add_up
from toast.costmodel.program.dataflow import Flow, named
from toast.costmodel.program.op_traits import Role

SCATTER = "stablehlo.scatter"
ADD = "stablehlo.add"


def reassociate_sums(program: Program, flow: Flow, rules: AllReduceReassociateRules) -> Ints:
    """For each contraction or scatter an earlier one whose result is only added to its own, or -1.

    As in `a + b + c`, where nothing else uses the three. Of scatters anything else may be added to
    the sum as well: XLA makes one scatter of them.
    """
    leader = np.full(program.ops, -1)
    if not rules.reassociates:
        return leader
    scatters = named(program, frozenset({SCATTER}))
    once = np.bincount(program.use_value, minlength=program.values) == 1
    head, after = np.full(program.ops, -2), np.full(program.ops, -1)
    sums = (flow.role == Role.CONTRACTION) | scatters
    add_up(flow, sums, named(program, frozenset({ADD})), scatters, once, head, after, leader)
    return leader
