"""Scatters that a compiler computes element by element, with no scatter.

The gradient of looking one element up in each row, as a loss does with labels, is a scatter of one
element into each row of zeros. libtpu makes it a select: where the place in the row is the index it
takes the update, elsewhere zero. That is fused into what reads it, and never stored.

Windows that a scatter places in dimensions that they keep, as the gradient of a lookup under
`jax.vmap` does, libtpu adds in a loop, one after another. So it finds windows of several rows.

The gradient of a maximum over windows is a scatter on a GPU: the pooling remembers where in the
image each maximum was, and the gradient scatters to these places.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import ScatterExpanderRules
from toast.costmodel.program.dataflow import Bools, Flow
from toast.costmodel.program.op_traits import Role

SCATTER = "stablehlo.scatter"
GATHER = "stablehlo.gather"
PAD = "stablehlo.pad"
POOLING = "stablehlo.reduce_window"
UNPOOLING = "stablehlo.select_and_scatter"
OPERANDS = 3
"""Operand, indices and updates: a scatter into one tensor."""
INDICES = 1
"""Which operand of a gather, and of a scatter into one tensor, holds the indices."""


def expand_scatters(program: Program, flow: Flow) -> Flow:
    """The flow in which scatters of one element into each row are elementwise."""
    expanded = expanded_scatters(program)
    if not expanded.any():
        return flow
    return flow._replace(role=np.where(expanded, int(Role.FUSIBLE), flow.role))


def expanded_scatters(program: Program) -> Bools:
    """For each op whether it scatters one element into each row of a constant."""
    found = np.zeros(program.ops, dtype=np.bool_)
    for op in program.ops_named(SCATTER):
        uses = program.uses_of(op)
        if len(uses) != OPERANDS or not program.constant[program.sources[uses[0]]]:
            continue
        if program.op_placed[op] > 1:
            continue
        operand, updates = (program.shape(program.sources[uses[n]]) for n in (0, OPERANDS - 1))
        found[op] = is_one_a_row(operand, updates)
    return found


def launches_each(program: Program, op: int, rules: ScatterExpanderRules) -> float:
    """Launches for each element of the indices of a gather or scatter whose windows run in a loop.

    0 for all other ops.
    """
    windows = int(program.op_placed[op])
    if windows <= 1:
        return 0.0
    gathers = program.kind(op) == GATHER
    launches = rules.gather_launches if gathers else rules.scatter_launches
    return launches * windows / program.elements[program.sources[program.uses_of(op)[INDICES]]]


def is_one_a_row(operand: tuple[int, ...], updates: tuple[int, ...]) -> bool:
    """Whether updates of this shape are one element for each row along one dimension of operand."""
    given = _longer(updates)
    rows = [operand[:dim] + operand[dim + 1 :] for dim, size in enumerate(operand) if size > 1]
    return bool(given) and any(_longer(row) == given for row in rows)


def pooled_places(program: Program) -> list[tuple[int, int, int]]:
    """Gradients of maxima over windows: (the maxima or their gradient, pooling op, gradient's op).

    Where nothing in the program made the maxima, both ops are the gradient's.
    """
    pooled = {
        (program.sources[program.uses_of(op)[0]], program.shape(program.values_of(op)[0])): op
        for op in program.ops_named(POOLING)
    }
    found = []
    for op in program.ops_named(UNPOOLING):
        image, gradient = (program.sources[use] for use in program.uses_of(op)[:2])
        if program.kind(program.makers[image]) == PAD:
            image = program.sources[program.uses_of(program.makers[image])[0]]
        made = pooled.get((image, program.shape(gradient)), op)
        found.append((gradient if made == op else program.values_of(made)[0], made, op))
    return found


def _longer(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size > 1)
