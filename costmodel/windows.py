"""How convolutions fill a TPU's matrix unit: their sides as of products, and their windows."""

from __future__ import annotations

from typing import NamedTuple

from analysis.program import Program
from costmodel.flops import BATCH, Sides, sides_of
from costmodel.images import CONVOLUTION, kernel_gradients


class Window(NamedTuple):
    """Of a convolution how many pixels of its window are contracted in one go with the channels.

    That is a row of the window, and 0 where pixels themselves are contracted, as in the gradient of
    a kernel. `widest` is the longest side of the window, 0 for what is no convolution.
    """

    row: int = 0
    widest: int = 0


NO_WINDOW = Window()


def windows(program: Program) -> dict[int, Window]:
    """The window of every convolution, by op."""
    gradients = set(kernel_gradients(program).tolist())
    found = {}
    for op in program.ops_named(CONVOLUTION):
        use, value = program.uses_of(op)[1], program.values_of(op)[0]
        if op in gradients:
            shape, names = program.shape(value), program.def_names(value)
        else:
            shape, names = program.shape(program.sources[use]), program.use_names(use)
        sides = [size for size, name in zip(shape, names.tolist(), strict=True) if name < 0]
        row = 0 if op in gradients else (sides or [1])[-1]
        found[op] = Window(row=row, widest=max(sides, default=1))
    return found


def convolution_sides(program: Program) -> dict[int, Sides]:
    """The sides of the factors of every convolution that has no groups, by op.

    Images are rows of a product and what they are convolved to its columns. How groups are put into
    tiles is not known, so they are taken to fill them.
    """
    found = sides_of(program, program.ops_named(CONVOLUTION))
    return {
        op: sides
        for op, sides in found.items()
        if all(side != BATCH or size == 1 for side, size in sides)
    }
