"""What a compiler keeps in memory besides, because of the way that elements lie there.

Where a TPU transposes a product that cannot be turned round instead, its elements stay as the
matrix unit leaves them, and all that is computed with them elementwise is laid out so. What that
reads of the program's arguments is copied there first, and its results are copied back. A GPU does
so with the gradient of a convolution's kernel: one argument of its update is copied early.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import ARGUMENT, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion import Fusion, batch_dims
from toast.costmodel.passes.space_to_batch import given_images
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.launches import Kernel
from toast.costmodel.program.op_traits import Role

INDEX_BYTES = 4
PAD = "stablehlo.pad"


def inside_kernels(program: Program, fusion: Fusion) -> set[int]:
    """Stored products whose only reader is one elementwise kernel: computed inside it.

    They are stored all the same where their partial sums are added up over devices, and where a
    reduction reads them, even one that runs beside the product.
    """
    kernels, roots, source = fusion.kernels, fusion.roots, program.use_value
    readers = np.bincount(source[kernels.reads], minlength=program.values)
    made = np.zeros(program.ops, dtype=np.bool_)
    made[roots.ops[np.diff(roots.dot_start) == 1]] = True
    reduces = (fusion.flow.role[roots.ops] == Role.REDUCE)[roots.rows(roots.read_start)]
    kept = np.zeros(program.values, dtype=np.bool_)
    kept[source[[result.use for result in program.results]]] = True
    kept[source[roots.reads[reduces]]] = True
    inside = _elementwise(fusion)[kernels.rows(kernels.read_start)]
    values = source[kernels.reads[inside]]
    alone = (readers[values] == 1) & ~kept[values] & made[program.value_op[values]]
    return set(values[alone].tolist())


Turns = dict[int, int]
"""Kernels that work on what a product leaves in another memory layout, and its position."""
Beside = tuple[int, tuple[int, int], float]
"""A value, (first, last) position and how many of its size are held besides."""


def copied_beside(program: Program, fusion: Fusion, turns: Turns) -> list[Beside]:
    """All that is held besides the buffers of values."""
    arguments = [
        (value, span, 1.0) for value, span in turned_arguments(program, fusion, turns).items()
    ]
    found = arguments + _pooled(program, fusion)
    return found + (_rounded(program, fusion) if fusion.policy.around else [])


def _rounded(program: Program, fusion: Fusion) -> list[Beside]:
    """Arguments that a TPU holds in 16 bits besides.

    What loops slice for products, and images that it convolves, which it copies to their tiles.
    """
    at = fusion.position
    found = [
        (value, (int(at[first]), int(at[last])), 0.5)
        for value, (first, last) in fusion.rounded.items()
    ]
    return found + [
        (value, (int(at[first]), int(at[last])), min(1.0, 2.0 / itemsize(program.dtype(value))))
        for value, (first, last) in given_images(program).items()
        if value not in fusion.rounded
    ]


def _pooled(program: Program, fusion: Fusion) -> list[Beside]:
    """What is kept for `select_and_scatter`, which is a pooling's gradient.

    A GPU finds the places of the largest elements in the forward pass: their indices, one integer
    for each dimension, live from there on, and so does what was pooled, in two memory layouts. A
    TPU keeps what was pooled once more where it has padding.
    """
    found: list[Beside] = []
    pooling = program.ops_named("stablehlo.select_and_scatter")
    reads = {root.op: root.reads for root in fusion.roots} if pooling else {}
    for op in pooling:
        pooled, source = (_value(program, use) for use in program.uses_of(op)[:2])
        sources = [_value(program, use) for use in reads.get(program.makers[pooled], ())]
        ready = [int(fusion.position[program.value_op[value]]) for value in sources]
        end = int(fusion.position[op])
        span = (max(ready, default=end), end)
        width = INDEX_BYTES / itemsize(program.dtype(source))
        if fusion.policy.around and program.kind(program.makers[pooled]) == PAD:
            found.append((pooled, span, 1.0))
        elif not fusion.policy.around:
            found += [(pooled, span, 2.0), (source, span, len(program.shape(source)) * width)]
    return found


def turned_arguments(program: Program, fusion: Fusion, turns: Turns) -> dict[int, tuple[int, int]]:
    """Arguments that are copied into a product's memory layout: first and last position.

    On a TPU all but one of those that a kernel reads: what was an argument's own buffer takes the
    next. On a GPU one, at the start.
    """
    found: dict[int, tuple[int, int]] = {}
    for number, begin in turns.items():
        kernel, copied = fusion.kernels[number], _given(program, fusion.kernels[number])
        around = fusion.policy.around
        end = max(int(fusion.position[op]) for op in kernel.ops)
        count = max(1, len(copied) - 1) if around else 1
        found |= dict.fromkeys(copied[:count], (begin if around else 0, end))
    return found


def copied_values(program: Program, fusion: Fusion, turns: Turns) -> dict[int, list[int]]:
    """For kernels of a TPU, by number, the values that are copied to their layout and back.

    Those are all that it reads of the program's arguments, and all results that it makes.
    """
    if not fusion.policy.around:
        return {}
    returned = {int(program.use_value[result.use]) for result in program.results}
    found = {}
    for number in turns:
        kernel = fusion.kernels[number]
        made = {value for op in kernel.ops for value in program.values_of(op)}
        found[number] = _given(program, kernel) + sorted(made & returned)
    return found


def turning(program: Program, fusion: Fusion) -> Turns:
    """Elementwise kernels of what a product leaves in another memory layout, by number.

    With each the position of that product. Kernels that read no argument are left out.
    """
    turned, kernels = _turned(program, fusion), fusion.kernels
    if not turned:
        return {}
    read, reader = program.use_value[kernels.reads], kernels.rows(kernels.read_start)
    makes = np.diff(program.op_values)[kernels.ops]
    made = spans(program.op_values[kernels.ops], makes)
    maker = np.repeat(kernels.rows(kernels.op_start), makes)
    product = np.full(program.values, program.ops)
    product[list(turned)] = list(turned.values())
    first = np.full(len(kernels), program.ops)
    np.minimum.at(first, np.concatenate([reader, maker]), product[np.concatenate([read, made])])
    given = np.zeros(program.values, dtype=np.bool_)
    given[[argument.value for argument in program.arguments]] = True
    elementwise, own = _elementwise(fusion), np.full(len(kernels), -1)
    own[elementwise] = program.value_shape[program.op_values[kernels.first_op[elementwise]]]
    reading = np.zeros(len(kernels), dtype=np.bool_)
    reading[reader[given[read] & (program.value_shape[read] == own[reader])]] = True
    found = np.flatnonzero((first < program.ops) & reading & elementwise)
    return dict(zip(found.tolist(), fusion.position[first[found]].tolist(), strict=True))


def _given(program: Program, kernel: Kernel) -> list[int]:
    """The program's arguments of a kernel's own shape that it reads."""
    shape = program.shape(program.values_of(kernel.ops[0])[0])
    read = {_value(program, use) for use in kernel.reads}
    given = (value for value in read if program.kind(program.makers[value]) == ARGUMENT)
    return sorted(value for value in given if program.shape(value) == shape)


def _turned(program: Program, fusion: Fusion) -> dict[int, int]:
    """Stored values whose elements lie as a product's do, and its op.

    On a TPU transposed products that no order of operands makes so: one of two matrices, alone or
    in batches, can be made the other way round. On a GPU convolutions.
    """
    starts, uses = program.readers
    found = {}
    dots = np.array(list(dict.fromkeys(reversed(fusion.roots.dots.tolist()))), dtype=np.int64)
    rank = program.of_shapes(len, np.int64)[program.op_values[dots]] if len(dots) else dots
    turned = np.array([batch_dims(fusion.sides.get(op, ())) for op in dots.tolist()])
    around = fusion.policy.around
    wanted = (turned >= 0) & (rank - turned != 2) if around else turned < 0
    for op in reversed(dots[wanted].tolist()):
        value, transposed = program.values_of(op)[0], not around
        while not fusion.written[value] and starts[value + 1] - starts[value] == 1:
            user = program.user(int(uses[starts[value]]))
            transposed |= program.kind(user) == "stablehlo.transpose"
            value = program.values_of(user)[0]
        if transposed and fusion.written[value]:
            found[value] = op
    return found


def _elementwise(fusion: Fusion) -> Bools:
    """Of each kernel whether all of its ops are elementwise."""
    kernels = fusion.kernels
    found = np.ones(len(kernels), dtype=np.bool_)
    found[kernels.rows(kernels.op_start)[fusion.flow.role[kernels.ops] != Role.FUSIBLE]] = False
    return found


def _value(program: Program, use: int) -> int:
    return program.sources[use]
