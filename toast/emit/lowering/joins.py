"""Concatenation along a split dimension: each device takes what its part is joined of."""

from __future__ import annotations

from typing import Any

from toast.analysis.windows import Window
from toast.emit.lowering.code import Code
from toast.emit.lowering.placed import Placed
from toast.emit.lowering.windows import Slide, extract

CONCATENATE = "stablehlo.concatenate"


def joined_dim(placed: Placed) -> int:
    """The dimension along which an op joins its operands, -1 where that is not split."""
    if placed.name != CONCATENATE:
        return -1
    dim = int(placed.handle.attributes["dimension"].value)
    split = [spec[dim] for spec in (*placed.operands, *placed.results)]
    return dim if any(split) else -1


def unjoinable(placed: Placed) -> set[str]:
    """Axes over which operands are not split as the result is."""
    dim = joined_dim(placed)
    if dim < 0:
        return set()
    split = [spec[dim] for spec in (*placed.operands, *placed.results)]
    return set() if all(axes == split[0] for axes in split) else {a for on in split for a in on}


def joined(code: Code, placed: Placed, operands: list[Any]) -> list[Any]:
    """The parts that a device has of the joined operands."""
    dim, first, found = joined_dim(placed), 0, None
    axes = tuple(placed.results[0][dim])
    local = list(placed.local_result(0))
    fill = code.splat([], operands[0], 0)
    index = code.iota(local, dim)
    index = code.binary("add", index, code.broadcast(code.offset(axes, local[dim]), local))
    for number, operand in enumerate(operands):
        size = placed.shapes[number][dim]
        slide = Slide(
            dim=dim,
            out=dim,
            window=Window(low=first),
            size=size,
            part=placed.local_operand(number)[dim],
            results=local[dim],
            axes=axes,
        )
        piece = extract(code, operand, slide, fill)
        if found is None:
            found = piece
        else:
            here = code.compare("GE", index, code.splat(local, "i32", first))
            found = code.select(here, piece, found)
        first += size
    return [found]
