"""What a compiler keeps in memory besides, because of the way that elements lie there.

Where a TPU transposes a product that cannot be turned round instead, its elements stay as the
matrix unit leaves them, and all that is computed with them elementwise is laid out so. What that
reads of the program's arguments is copied there first, and its results are copied back. A GPU does
so with the gradient of a convolution's filter: one argument of its update is copied early.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import ARGUMENT, Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.passes.fusion import Fusion, batch_dims
from toast.costmodel.passes.output_fusion import elementwise
from toast.costmodel.passes.row_layouts import adds_rows
from toast.costmodel.passes.scatter_expander import pooled_places
from toast.costmodel.passes.space_to_batch import given_images
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.launches import LaunchedFusion
from toast.costmodel.program.lookups import BY_ROW, SUMMED, TILED, looked_up

Beside = tuple[int, tuple[int, int], float]
"""A value, (first, last) position and how many of its size are held besides."""
OtherLayouts = dict[int, int]
"""Fusions that work on what a product leaves in another memory layout, and its position."""


def copied_beside(program: Program, fusion: Fusion, others: OtherLayouts) -> list[Beside]:
    """All that is held besides the buffers of values."""
    arguments = [
        (value, span, 1.0) for value, span in copied_arguments(program, fusion, others).items()
    ]
    return (
        arguments + _rounded(program, fusion) + _padded(program, fusion) + _places(program, fusion)
    )


def _rounded(program: Program, fusion: Fusion) -> list[Beside]:
    """Arguments that a TPU holds in 16 bits besides.

    What loops slice for products, and images that it convolves, which it copies to their tiles.
    """
    at = fusion.position
    found = [
        (value, (int(at[first]), int(at[last])), 0.5)
        for value, (first, last) in fusion.rounded.items()
    ]
    if not fusion.profile.layout_assignment.copies_images:
        return found
    return found + [
        (value, (int(at[first]), int(at[last])), min(1.0, 2.0 / itemsize(program.dtype(value))))
        for value, (first, last) in given_images(program).items()
        if value not in fusion.rounded
    ]


def _places(program: Program, fusion: Fusion) -> list[Beside]:
    """Where maxima over windows were found, a number of 32 bits for each dimension of the image."""
    if not fusion.profile.scatter_expander.keeps_places:
        return []
    at, found = fusion.position, []
    for maxima, pooling, gradient in pooled_places(program):
        numbers = 4.0 * len(program.shape(maxima)) / itemsize(program.dtype(maxima))
        found.append((maxima, (int(at[pooling]), int(at[gradient])), numbers))
    return found


def _padded(program: Program, fusion: Fusion) -> list[Beside]:
    """Images that a GPU pads by themselves, from the first convolution of each to the last.

    The gradient of the filter reads what the convolution padded.
    """
    if not fusion.profile.layout_assignment.copies_padded:
        return []
    found: dict[tuple[int, float], list[int]] = {}
    for op in np.flatnonzero(program.op_padded != 1.0).tolist():
        image = program.sources[program.uses_of(op)[0]]
        found.setdefault((image, float(program.op_padded[op])), []).append(op)
    at = fusion.position
    return [
        (image, (int(at[ops].min()), int(at[ops].max())), times)
        for (image, times), ops in found.items()
    ]


def copied_arguments(
    program: Program, fusion: Fusion, others: OtherLayouts
) -> dict[int, tuple[int, int]]:
    """Arguments that are copied into a product's memory layout: first and last position.

    On a TPU all but one of those that a fusion reads: what was an argument's own buffer takes the
    next. On a GPU one, at the start.
    """
    copies_all = fusion.profile.layout_assignment.copies_all
    found: dict[int, tuple[int, int]] = {}
    for number, begin in others.items():
        one, copied = fusion.launched[number], _given(program, fusion.launched[number])
        end = max(int(fusion.position[op]) for op in one.ops)
        count = max(1, len(copied) - 1) if copies_all else 1
        found |= dict.fromkeys(copied[:count], (begin if copies_all else 0, end))
    return found


def copied_values(program: Program, fusion: Fusion, others: OtherLayouts) -> dict[int, list[int]]:
    """For fusions of a TPU, by number, the values that are copied to their layout and back.

    Those are all that it reads of the program's arguments, and all results that it makes.
    """
    if not fusion.profile.layout_assignment.copies_all:
        return {}
    returned = {int(program.use_value[result.use]) for result in program.results}
    found = {}
    for number in others:
        one = fusion.launched[number]
        made = {value for op in one.ops for value in program.values_of(op)}
        found[number] = _given(program, one) + sorted(made & returned)
    return found


def lies(program: Program, fusion: Fusion) -> Ints:
    """How each value lies in memory: what is looked up or added up lies row by row.

    A TPU looks up whole rows, and adds up whole rows, whatever else fills its tiles better.
    """
    found = np.full(program.values, TILED)
    if not fusion.profile.fusion.stores_looked_up:
        return found
    found[program.op_values[:-1][looked_up(program)]] = BY_ROW
    for op in np.flatnonzero(adds_rows(program, fusion)).tolist():
        found[program.sources[program.uses_of(op)[-1]]] = BY_ROW
        found[program.values_of(op)[0]] = SUMMED
    return found


def assign_layouts(program: Program, fusion: Fusion) -> OtherLayouts:
    """Elementwise fusions of what a product leaves in another memory layout, by number.

    With each the position of that product. Fusions that read no argument are left out.
    """
    copies = fusion.profile.layout_assignment.copies_arguments
    transposed, launched = transposed_products(program, fusion) if copies else {}, fusion.launched
    if not transposed:
        return {}
    read, reader = program.use_value[launched.reads], launched.rows(launched.read_start)
    makes = np.diff(program.op_values)[launched.ops]
    made = spans(program.op_values[launched.ops], makes)
    maker = np.repeat(launched.rows(launched.op_start), makes)
    product = np.full(program.values, program.ops)
    product[list(transposed)] = list(transposed.values())
    first = np.full(len(launched), program.ops)
    given = np.zeros(program.values, dtype=np.bool_)
    given[[argument.value for argument in program.arguments]] = True
    looping, own = elementwise(fusion.flow, launched), np.full(len(launched), -1)
    roots = program.op_values[launched.first_op[looping]]
    own[looping], elements = program.value_shape[roots], fusion.flow.elements
    large = np.full(len(launched), -1.0)
    large[looping] = elements[roots]
    alike = elements[read] == large[reader]
    inner = np.isin(launched.dots, list(transposed.values()))
    np.minimum.at(first, maker, product[made])
    np.minimum.at(first, reader[alike], product[read[alike]])
    np.minimum.at(first, launched.rows(launched.dot_start)[inner], launched.dots[inner])
    reading = np.zeros(len(launched), dtype=np.bool_)
    reading[reader[given[read] & (program.value_shape[read] == own[reader])]] = True
    found = np.flatnonzero((first < program.ops) & reading & looping)
    return dict(zip(found.tolist(), fusion.position[first[found]].tolist(), strict=True))


def _given(program: Program, one: LaunchedFusion) -> list[int]:
    """The program's arguments of a fusion's own shape that it reads."""
    shape = program.shape(program.values_of(one.ops[0])[0])
    read = {_value(program, use) for use in one.reads}
    given = (value for value in read if program.kind(program.makers[value]) == ARGUMENT)
    return sorted(value for value in given if program.shape(value) == shape)


def transposed_products(program: Program, fusion: Fusion) -> dict[int, int]:
    """Stored values whose elements lie as a product's do, and its op.

    On a TPU transposed products that no order of operands makes so: one of two matrices, alone or
    in batches, can be made the other way round. On a GPU convolutions.
    """
    starts, uses = program.readers
    found = {}
    dots = np.array(list(dict.fromkeys(reversed(fusion.roots.dots.tolist()))), dtype=np.int64)
    rank = program.of_shapes(len, np.int64)[program.op_values[dots]] if len(dots) else dots
    batch = np.array([batch_dims(fusion.sides.get(op, ())) for op in dots.tolist()])
    dots_only = fusion.profile.layout_assignment.copied_for == "transposed_dots"
    wanted = (batch >= 0) & (rank - batch != 2) if dots_only else batch < 0
    for op in reversed(dots[wanted].tolist()):
        value, transposed = program.values_of(op)[0], not dots_only
        while not fusion.written[value] and starts[value + 1] - starts[value] == 1:
            user = program.user(int(uses[starts[value]]))
            transposed |= program.kind(user) == "stablehlo.transpose"
            value = program.values_of(user)[0]
        if transposed and fusion.written[value]:
            found[value] = op
    return found


def _value(program: Program, use: int) -> int:
    return program.sources[use]
