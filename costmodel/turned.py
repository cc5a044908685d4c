"""Gradients of weights on a TPU: computed inside the update, which runs in their memory layout.

Where a product is transposed that cannot be turned round instead, its elements stay as the matrix
unit leaves them, and all that is computed with them elementwise is laid out so in memory. What
that reads of the program's arguments is copied there first, and its results are copied back.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from analysis.program import Program
from costmodel.flops import BATCH, product_sides
from costmodel.fusion import Fusion
from costmodel.kernelmerge import Kernel
from costmodel.roles import Role, role


def inside_kernels(program: Program, fusion: Fusion) -> set[int]:
    """Stored products whose only reader is one elementwise kernel: computed inside it.

    They are stored all the same where their partial sums are added up over devices.
    """
    readers = Counter(_value(program, use) for kernel in fusion.kernels for use in kernel.reads)
    returned = {int(program.use_value[result.use]) for result in program.results}
    made = {root.op for root in fusion.roots if len(root.contractions) == 1}
    found = set()
    for kernel in fusion.kernels:
        if _is_elementwise(program, kernel):
            for value in (_value(program, use) for use in kernel.reads):
                alone = readers[value] == 1 and value not in returned
                if alone and int(program.value_op[value]) in made:
                    found.add(value)
    return found


def turned_arguments(program: Program, fusion: Fusion) -> dict[int, tuple[int, int]]:
    """Arguments that are copied into a product's memory layout: first and last position.

    All but one of those that a kernel reads: what was an argument's own buffer takes the next.
    """
    arguments = {argument.value for argument in program.arguments}
    turned = _turned(program, fusion)
    found = {}
    for kernel in fusion.kernels:
        if not _is_elementwise(program, kernel):
            continue
        read = {_value(program, use) for use in kernel.reads}
        made = {value for op in kernel.ops for value in program.values_of(op)}
        dots = sorted(turned[value] for value in (read | made) & turned.keys())
        shape = program.shape(program.values_of(kernel.ops[0])[0])
        copied = sorted(value for value in read & arguments if program.shape(value) == shape)
        if dots and copied:
            end = max(int(fusion.position[op]) for op in kernel.ops)
            span = (int(fusion.position[dots[0]]), end)
            found |= dict.fromkeys(copied[: max(1, len(copied) - 1)], span)
    return found


def _turned(program: Program, fusion: Fusion) -> dict[int, int]:
    """Values that hold transposed products which no order of operands makes so, and their op.

    A product of two matrices, alone or in batches, can be made the other way round.
    """
    users = np.bincount(program.use_value, minlength=program.values)
    only = {_value(program, use): use for use in range(len(program.use_value))}
    found = {}
    for op in (dot for root in fusion.roots for dot in root.contractions):
        sides = product_sides(program, op)
        value, transposed = program.values_of(op)[0], False
        batch = sum(side == BATCH and size > 1 for side, size in sides)
        if not sides or len(program.shape(value)) - batch == 2:
            continue
        while not fusion.written[value] and users[value] == 1:
            user = program.user(only[value])
            transposed |= program.kind(user) == "stablehlo.transpose"
            value = program.values_of(user)[0]
        if transposed and fusion.written[value]:
            found[value] = op
    return found


def _is_elementwise(program: Program, kernel: Kernel) -> bool:
    return all(role(program.kind(op)) is Role.FUSIBLE for op in kernel.ops)


def _value(program: Program, use: int) -> int:
    return int(program.use_value[use])
