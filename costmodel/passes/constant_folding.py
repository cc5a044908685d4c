"""Constants in memory: what a program is given with, and what a compiler makes of that itself.

A lookup in a constant at places that no argument decides is such a constant, as where the positions
of a text are looked up in a table of sines. All are made before devices share the work: they lie
whole on each of them, from the start. What is made of numbers that count up, or of one number
repeated, is not stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.compilers.rules import ConstantFoldingRules
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.lookups import looked_up
from toast.costmodel.program.op_traits import Role, role

BROADCAST = "stablehlo.broadcast_in_dim"
WIDE = "f32"


class Constants(NamedTuple):
    """Values in memory with the part of their bytes that is stored, and the ops that read each.

    `made` tells of every value whether it is a constant, which nothing computes.
    """

    stored: Ints
    width: Floats
    readers: list[set[int]]
    made: Bools


def constants_of(program: Program, rules: ConstantFoldingRules) -> Constants:
    """The constants of a program; those that only products read are stored in 16 bits.

    Two that are equal are one.
    """
    made = _made(program, rules) if rules.stores_constants else np.zeros(program.values, np.bool_)
    starts, uses = program.readers
    found: dict[int, tuple[int, set[int]]] = {}
    for value in np.flatnonzero(made).tolist():
        readers = {program.user(int(use)) for use in uses[starts[value] : starts[value + 1]]}
        others = {op for op in readers if not all(made[one] for one in program.values_of(op))}
        maker = program.makers[value]
        content = int(program.op_content[maker]) if program.op_literal[maker] else -1
        if others:
            found.setdefault(content if content >= 0 else ~value, (value, set()))[1].update(others)
    width = [_width(program, value, readers) for value, readers in found.values()]
    stored = ints([value for value, _ in found.values()])
    return Constants(stored, floats(width), [readers for _, readers in found.values()], made)


def _width(program: Program, value: int, readers: set[int]) -> float:
    multiplied = all(role(program.kind(op)) is Role.CONTRACTION for op in readers)
    return 0.5 if multiplied and program.dtype(value) == WIDE else 1.0


def _made(program: Program, rules: ConstantFoldingRules) -> Bools:
    """For each value whether it is given with the program, or made of that before it runs."""
    given = program.op_literal.tolist()
    lookups, constant = looked_up(program).tolist(), program.constant.tolist()
    made = [False] * program.values
    starts, source = program.op_uses.tolist(), program.use_value.tolist()
    for op in range(program.ops):
        first, end = starts[op], starts[op + 1]
        if first == end:
            folds = given[op]
            if not folds:
                continue
        elif not constant[source[first]] or not all(constant[one] for one in source[first:end]):
            continue  # the first alone tells of nearly all
        else:
            name = program.kind(op)
            fusible = role(name) is Role.FUSIBLE
            arithmetic = fusible and name != BROADCAST
            folds = lookups[op] or (arithmetic and any(made[one] for one in source[first:end]))
            if not folds and not fusible:
                continue
        for value in program.values_of(op):
            small = given[op] or np.prod(program.shape(value)) <= rules.most_elements
            constant[value] = bool(small)
            made[value] = bool(small and folds)
    return np.array(made, dtype=np.bool_)
