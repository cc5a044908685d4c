"""Sums over devices that products wait for, and that XLA sends together at one moment of a layer.

Sums of one type of which none is made of another are one message where they follow each other: the
mean of a batch norm and the mean of the squares, or what queries, keys and values add up. XLA's
AllReduceCombiner takes one sum after another until one is made of those that it has.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.jit import entry
from toast.analysis.program import LOOP_BEGIN, LOOP_END, Floats, Ints, Program
from toast.costmodel.program.arrays import floats
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.distinct import distinct_rows

ALONE = -1
"""The kind of moment of what is sent by itself."""
SEVERAL = 2


def kinds_of_moments(
    program: Program, ops: Ints, waiting: Bools, alike: Ints
) -> tuple[Ints, Floats]:
    """The kind of moment at which each of `ops` is sent, or `ALONE`; how many there are of each.

    Those are sent that are `waiting`. Moments are of one kind where their sums are `alike` (equal
    numbers), as those of equal layers are.
    """
    summing = np.zeros(program.ops, dtype=np.bool_)
    summing[ops[waiting]] = True
    dtype = program.value_type[program.op_values[ops]]
    message, _ = distinct_rows(_moments(program, summing)[ops], dtype)
    order = np.lexsort((alike, message))
    order = order[waiting[order]]
    found, many = np.full(len(ops), ALONE), list[float]()
    kinds: dict[tuple[int, ...], int] = {}
    for members in np.split(order, np.flatnonzero(np.diff(message[order])) + 1):
        if len(members) < SEVERAL:
            continue
        kind = kinds.setdefault(tuple(alike[members].tolist()), len(kinds))
        many += [0.0] * (kind == len(many))
        many[kind] += float(program.op_trips[ops[members[0]]])
        found[members] = kind
    return found, floats(many)


def _moments(program: Program, summing: Bools) -> Ints:
    """By op the number of the moment at which what is `summing` is sent, -1 for all others."""
    found, bounds = np.full(program.ops, -1), np.zeros(program.ops, dtype=np.bool_)
    bounds[list(program.ops_named(LOOP_BEGIN, LOOP_END))] = True
    columns = program.op_uses, program.use_value, program.op_values
    _number(*columns, summing, bounds, np.full(program.values, -1), found)
    return found


@entry
def _number(
    op_uses: Ints, use_value: Ints, op_values: Ints, summing: Bools, bounds: Bools, made_of: Ints,
    found: Ints,
) -> None:  # fmt: skip
    """Begin a moment at the `bounds` of loops, and where a sum is made of one of the moment before.

    `made_of` is by value the last moment of whose sums it is made.
    """
    now = 0
    for op in range(len(summing)):
        depends = False
        for use in range(op_uses[op], op_uses[op + 1]):
            depends |= made_of[use_value[use]] == now
        if bounds[op] or (summing[op] and depends):
            now, depends = now + 1, False
        if summing[op]:
            found[op], depends = now, True
        if depends:
            for value in range(op_values[op], op_values[op + 1]):
                made_of[value] = now
