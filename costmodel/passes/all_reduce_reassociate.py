"""Which partial sums are only added to others, so that devices sum them once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.compilers.rules import AllReduceReassociateRules
from toast.costmodel.passes.fusion_chains import add_up, lead
from toast.costmodel.program.dataflow import Bools, Flow, named
from toast.costmodel.program.op_traits import LAYOUT, Role

SCATTER = "stablehlo.scatter"
ADD = "stablehlo.add"
MOVES = LAYOUT - {"stablehlo.convert"}
"""What may lie between a sum and what it is added to: what is rounded or widened is sent before."""


class Leaders(NamedTuple):
    """For each contraction or scatter an earlier one with which it is summed, or -1.

    Where devices want the `whole` sum, and where they want it `scattered`.
    """

    whole: Ints
    scattered: Ints


def reassociate_sums(program: Program, flow: Flow, rules: AllReduceReassociateRules) -> Leaders:
    """What is only added to each other, as in `a + b + c`, where nothing else uses the three.

    Sums that are scattered over devices are then one, whatever makes them. Of those that are wanted
    whole the products are one and the scatters another: XLA makes one scatter of these, also where
    something else is added in between.
    """
    found = Leaders(np.full(program.ops, -1), np.full(program.ops, -1))
    if not rules.reassociates:
        return found
    products, scatters = flow.role == Role.CONTRACTION, named(program, frozenset({SCATTER}))
    sums = products | scatters
    head, after = _lists(program, flow, sums, across=False)
    lead(head, after, sums, found.scattered)
    lead(head, after, products, found.whole)
    lead(*_lists(program, flow, scatters, across=True), scatters, found.whole)
    return found


def _lists(program: Program, flow: Flow, sums: Bools, *, across: bool) -> tuple[Ints, Ints]:
    """The heads of lists of `sums`, and what follows on each; see `add_up`."""
    once = np.bincount(program.use_value, minlength=program.values) == 1
    head, after = np.full(program.ops, -2), np.full(program.ops, -1)
    adds, moves = named(program, frozenset({ADD})), named(program, MOVES)
    add_up(flow, sums, adds, moves, across, once, head, after)
    return head, after
