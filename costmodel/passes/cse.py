"""What a program computes more than once and a TPU once: equal ops of equal operands.

Every layer computes the angles that it turns its queries by anew, and every normalisation the mean
that its variance needs as well. XLA keeps the first of them, and sends what others want of it once.
Nothing is the same on both sides of an optimization barrier, or in a loop and outside of it.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import BRANCH_END, CASE_END, Ints, Program
from toast.costmodel.compilers.rules import CseRules
from toast.costmodel.passes.all_reduce_combiner import loops
from toast.costmodel.passes.cse_kernel import number_identical
from toast.costmodel.program.dataflow import named
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.program.sharding_units import Layouts


def merge_identical_ops(program: Program, layouts: Layouts, rules: CseRules) -> tuple[Ints, Ints]:
    """For each value and for each op the first that is equal and laid out alike, or itself.

    Itself where a compiler does not merge them, as for a GPU, where each is sent for itself.
    """
    if not rules.merges_identical_ops:
        return np.arange(program.values), np.arange(program.ops)
    value, op = equal_ops(program)
    like, kept = distinct_rows(value, layouts.value_tensor)
    tensors = distinct_rows(layouts.value_tensor, layouts.result_tensor)[0]
    number, first = distinct_rows(
        op,
        layouts.op_unit,
        distinct(program.op_uses, layouts.use_tensor)[0],
        distinct(program.op_values, tensors)[0],
    )
    return kept[like], first[number]


def equal_ops(program: Program) -> tuple[Ints, Ints]:
    """For each value and for each op the first that is equal, however it is laid out."""
    value, first = np.arange(program.values), np.arange(program.ops)
    table = np.full(1 << (2 * program.ops + 1).bit_length(), -1)
    columns = program.op_uses, program.use_value, program.op_values
    number_identical(program.op_content, _scopes(program), *columns, table, value, first)
    return value, first


def _scopes(program: Program) -> Ints:
    """For each op a number of the loop, or the branch, that it runs in."""
    loop, runs = loops(program)
    branch = np.cumsum(named(program, frozenset({BRANCH_END, CASE_END})))
    return loop + len(runs) * branch
