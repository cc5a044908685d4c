"""Operands that a broadcast repeats, as keys and values that several heads share.

A TPU computes what feeds a product inside it, but stores what a broadcast made larger: the repeated
heads of attention with grouped queries, in 16 bits. A product of one row is no product there, and
computes that inside as anything else does.
"""

from __future__ import annotations

import math

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.program.contractions import BATCH, LEFT, RIGHT, Sides
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import LAYOUT

BROADCAST = "stablehlo.broadcast_in_dim"


def repeated_operands(program: Program, sides: dict[int, Sides]) -> Bools:
    """For each use whether a product of several rows and columns reads what was repeated."""
    found = np.zeros(len(program.use_value), dtype=np.bool_)
    starts, uses = program.readers
    pending = [
        program.values_of(op)[0] for op in program.ops_named(BROADCAST) if _repeats(program, op)
    ]
    while pending:
        value = pending.pop()
        for use in uses[starts[value] : starts[value + 1]].tolist():
            user = program.user(use)
            if user in sides:
                found[use] = not _reduces(sides[user])
            elif program.kind(user) in LAYOUT and not _repeats(program, user):
                pending.append(program.values_of(user)[0])
    return found


def _repeats(program: Program, op: int) -> bool:
    """Whether an op makes more elements of several."""
    if program.kind(op) != BROADCAST:
        return False
    elements = program.elements
    source, made = program.sources[program.uses_of(op)[0]], program.values_of(op)[0]
    return bool(1 < elements[source] < elements[made])


def _reduces(sides: Sides) -> bool:
    """Whether a batch of products has one row or column, so that it multiplies and adds up."""
    sizes = {one: math.prod(n for side, n in sides if side == one) for one in (BATCH, LEFT, RIGHT)}
    return sizes[BATCH] > 1 and min(sizes[LEFT], sizes[RIGHT]) == 1
