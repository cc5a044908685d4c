"""Broadcasts that are stored: a TPU makes what repeats an array tile by tile, by an op of its own.

Keys and values that several heads share are such: products read them for each head. A fusion goes
through several tiles at once, and takes the time of what it reads and writes alone.
"""

from __future__ import annotations

import math

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.dataflow import Bools, named

BROADCAST = frozenset({"stablehlo.broadcast_in_dim"})
BITCASTS = frozenset({"stablehlo.reshape", "stablehlo.transpose"})
"""What the layout of an array may say in place of an op."""
LONGEST = 8
"""Bitcasts in a row that are looked through."""


def lone_broadcasts(program: Program, fusion: Fusion) -> Bools:
    """For each launched fusion if it does nothing but repeat an array of more than one number."""
    launched = fusion.launched
    found = np.diff(launched.op_start) == 1
    found &= (np.diff(launched.dot_start) == 0) & (np.diff(launched.read_start) == 1)
    found &= fusion.profile.fusion.walks_broadcasts
    op = _behind_bitcasts(program, fusion, launched.first_op)
    found &= named(program, BROADCAST)[op]
    some = np.flatnonzero(found)
    read, made = launched.reads[launched.read_start[some]], program.op_values[op[some]]
    elements = program.of_shapes(math.prod, np.float64)
    given = elements[program.use_value[read]]
    found[some] = (program.use_op[read] == op[some]) & (given > 1) & (given < elements[made])
    return found


def _behind_bitcasts(program: Program, fusion: Fusion, op: Ints) -> Ints:
    """For each op the one whose result it brings to another shape, inside the same fusion."""
    bitcasts = named(program, BITCASTS)
    for _ in range(LONGEST):
        passing = np.flatnonzero(bitcasts[op])
        value = program.use_value[program.op_uses[op[passing]]]
        inside = ~fusion.written[value]
        if not inside.any():
            break
        op = op.copy()
        op[passing[inside]] = program.value_op[value[inside]]
    return op
