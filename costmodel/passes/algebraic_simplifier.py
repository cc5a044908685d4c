"""Products of which only a slice is read are made for that slice alone.

XLA's algebraic simplifier cuts the operands instead, along any dimension of the result. So the
logits of a prompt are those of its last token, whatever the program multiplies.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import AlgebraicSimplifierRules
from toast.costmodel.program.contractions import Sides
from toast.costmodel.program.dataflow import Bools, Flow, named

SLICES = frozenset({"stablehlo.slice"})


def cut_products(
    program: Program, flow: Flow, sides: dict[int, Sides], rules: AlgebraicSimplifierRules
) -> dict[int, int]:
    """For each product of matrices that nothing but one slice reads, that slice."""
    if not rules.cuts_products:
        return {}
    slices = named(program, SLICES)
    made = np.array([program.values_of(op)[0] for op in sides], dtype=np.int64)
    ops, found = np.array(list(sides), dtype=np.int64), flow.reader_start[made]
    alone = flow.reader_start[made + 1] - found == 1
    ops, readers = ops[alone], flow.user[flow.reader[found[alone]]]
    cut = slices[readers]
    return dict(zip(ops[cut].tolist(), readers[cut].tolist(), strict=True))


def cut_sides(program: Program, sides: dict[int, Sides], cut: dict[int, int]) -> dict[int, Sides]:
    """The sides with the sizes that are left of the factors of these products."""
    return sides | {op: _cut(program, op, sides[op], by) for op, by in cut.items()}


def parts(program: Program, cut: dict[int, int]) -> dict[int, float]:
    """Of each of these products how much of its result is made."""
    elements = program.elements
    made = {op: (program.values_of(op)[0], program.values_of(by)[0]) for op, by in cut.items()}
    return {op: elements[part] / elements[whole] for op, (whole, part) in made.items()}


def cutting(program: Program, cut: dict[int, int]) -> Bools:
    """For each op whether it is such a slice."""
    found = np.zeros(program.ops, dtype=np.bool_)
    found[list(cut.values())] = True
    return found


def _cut(program: Program, op: int, sides: Sides, by: int) -> Sides:
    names = program.def_names(program.values_of(op)[0]).tolist()
    left = dict(zip(names, program.shape(program.values_of(by)[0]), strict=True))
    factors = program.factors_of(op)
    return tuple(
        (side, left.get(int(factor), size))
        for factor, (side, size) in zip(factors, sides, strict=True)
    )
