"""Batches of matrices: what a TPU multiplies in batches lies matrix by matrix.

The two dimensions of a matrix fill the tiles, whatever else would fill them better: scores of 49
positions by 49 take the room of 56 by 128.
"""

from __future__ import annotations

import math

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.compilers.rules import LayoutAssignmentRules
from toast.costmodel.passes.space_to_batch import Shape
from toast.costmodel.program.sharding_units import Layouts

PRODUCT = "stablehlo.dot_general"
CUTTING = ("stablehlo.slice", "stablehlo.concatenate", "stablehlo.pad")
"""What makes a value of another shape of the same dimensions."""
MATRIX = 2
NO_MATRIX = (-1, -1)
ROUNDS = 4
Matrices = dict[Shape, tuple[int, int]]
"""By shape where it has the two dimensions of its matrices."""


def matrices(program: Program, rules: LayoutAssignmentRules) -> Matrices:
    """The shapes of what is multiplied in batches, and of its parts; none where none is padded."""
    found: Matrices = {}
    if not (rules.pads_values and rules.lays_matrices):
        return found
    for op in program.ops_named(PRODUCT):
        uses, value = program.uses_of(op), program.values_of(op)[0]
        left, right = (program.use_names(use).tolist() for use in uses)
        made = program.def_names(value).tolist()
        batch = {name for name in {*left} & {*right} & {*made} if name >= 0}
        shapes = (*(program.shape(program.sources[use]) for use in uses), program.shape(value))
        for shape, names in zip(shapes, (left, right, made), strict=True):
            own = [dim for dim, name in enumerate(names) if name not in batch]
            many = math.prod(shape) > math.prod(shape[dim] for dim in own)
            if len(own) == MATRIX and many:
                found.setdefault(shape, (own[0], own[1]))
    return _with_parts(program, found)


def _with_parts(program: Program, found: Matrices) -> Matrices:
    """With the shapes of what is cut of such values, or put together of them."""
    pairs = [
        (program.shape(program.sources[use]), program.shape(program.values_of(op)[0]))
        for op in program.ops_named(*CUTTING)
        for use in program.uses_of(op)
    ]
    pairs = [pair for pair in dict.fromkeys(pairs) if len(pair[0]) == len(pair[1])]
    for _ in range(ROUNDS):
        for one, other in pairs:
            if one in found:
                found.setdefault(other, found[one])
            elif other in found:
                found.setdefault(one, found[other])
    return found


def matrix_rows(layouts: Layouts, found: Matrices) -> Ints:
    """For each tensor the dimensions of its matrices [tensors, 2], -1 for what has none."""
    rows = [
        found.get(tuple(size for size, _ in dims), NO_MATRIX) if found else NO_MATRIX
        for _, dims in layouts.tensors
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, MATRIX)
