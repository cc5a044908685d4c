"""Products of which only a slice is read are made for that slice; sums of sums are one sum.

XLA's algebraic simplifier cuts the operands of such a product instead, along any dimension of the
result. So the logits of a prompt are those of its last token, whatever the program multiplies. A
reduction of which only a reduction is read becomes one with that, dimensions of 1 aside. So where
`jax.vmap` adds up the gradient of a scale over the examples and then over the tokens, devices sum
what is left in the end.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.compilers.rules import AlgebraicSimplifierRules
from toast.costmodel.program.contractions import Sides
from toast.costmodel.program.dataflow import Bools, Flow, named

SLICES = frozenset({"stablehlo.slice"})
REDUCE = "stablehlo.reduce"
RESHAPING = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim", REDUCE})
"""What adds dimensions of 1 or takes them away, where it does nothing else."""


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


def joined_reductions(program: Program, rules: AlgebraicSimplifierRules) -> Ints:
    """For each op the last of the reductions that it is one with, or the op itself."""
    found = np.arange(program.ops)
    if not rules.joins_reductions:
        return found
    for op in reversed(program.ops_named(REDUCE)):  # what reads it comes first
        behind = _only_reader(program, op)
        while behind >= 0 and _keeps_elements(program, behind):
            behind = _only_reader(program, behind)
        if behind >= 0 and _joins(program, op, behind):
            found[op] = found[behind]
    return found


def _only_reader(program: Program, op: int) -> int:
    """The one op that reads the one result of an op, as its first operand; -1 if it is not so."""
    value, (starts, uses) = program.values_of(op), program.readers
    if len(value) != 1 or starts[value[0] + 1] - starts[value[0]] != 1:
        return -1
    use = int(uses[starts[value[0]]])
    user = program.user(use)
    return user if use == program.uses_of(user)[0] and len(program.values_of(user)) == 1 else -1


def _keeps_elements(program: Program, op: int) -> bool:
    """Whether an op only adds dimensions of 1, or takes them away."""
    if program.kind(op) not in RESHAPING:
        return False
    before, after = program.sources[program.uses_of(op)[0]], program.values_of(op)[0]
    sizes = [[n for n in program.shape(value) if n != 1] for value in (before, after)]
    return sizes[0] == sizes[1]


def _joins(program: Program, op: int, behind: int) -> bool:
    """Whether a reduction reduces in the same way what another one made, and as often."""
    alike = program.op_folds[op] == program.op_folds[behind] >= 0
    often = program.op_trips[op] == program.op_trips[behind]
    return program.kind(behind) == REDUCE and bool(alike and often)


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
