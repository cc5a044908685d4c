"""Ops with windows over split dimensions: devices exchange strips with their neighbours.

Each device takes what its part of the results is made of: strips of its neighbours' parts where
these reach far enough, else all parts. What lies outside of the tensor is filled with the padding
of the op, which then has no padding of its own left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.windows import READERS, Window
from toast.emit.lowering.code import Code, numbers
from toast.emit.lowering.placed import Placed

CONVOLUTION = "stablehlo.convolution"
REVERSE = "stablehlo.reverse"
_SLIDING = frozenset(
    {CONVOLUTION, REVERSE, "stablehlo.pad", "stablehlo.reduce_window", "stablehlo.slice"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """A dimension of the first operand under a window, both it and the `out` of results split.

    `window` is None where the dimension is reversed.
    """

    dim: int
    out: int
    window: Window | None
    size: int
    part: int
    results: int
    axes: tuple[str, ...]

    @property
    def reach(self) -> int:
        """How many elements the results of a device are made of."""
        assert self.window is not None
        return (self.results - 1) * self.window.stride + self.window.reach

    def first(self, device: int) -> int:
        """The first of those elements, of the device with this part."""
        assert self.window is not None
        return device * self.results * self.window.stride - self.window.low


def slides(placed: Placed) -> list[Slide]:
    """The split dimensions that a window slides over."""
    if placed.name not in _SLIDING:
        return []
    found = []
    for dim, (window, out) in READERS[placed.name](placed.handle).items():
        axes = placed.operands[0][dim]
        if (axes or placed.results[0][out]) and not _is_plain(placed, dim, out, window):
            found.append(_slide(placed, dim, out, window))
    return found


def _slide(placed: Placed, dim: int, out: int, window: Window | None) -> Slide:
    return Slide(
        dim=dim,
        out=out,
        window=window,
        size=placed.shapes[0][dim],
        part=placed.local_operand(0)[dim],
        results=placed.local_result(0)[out],
        axes=tuple(placed.operands[0][dim]),
    )


def _is_plain(placed: Placed, dim: int, out: int, window: Window | None) -> bool:
    """Whether each result along a dimension is made of the element at its own place."""
    plain = window == Window() and placed.shapes[0][dim] == placed.made[0][out]
    return plain or (
        not placed.results[0][out] and set(placed.operands[0][dim]) <= set(placed.reduced)
    )


def unslidable(placed: Placed) -> set[str]:
    """Axes over which this cannot be done: layouts differ, or the operand is dilated."""
    found: set[str] = set()
    for slide in slides(placed):
        wanted = placed.results[0][slide.out]
        dilated = slide.window is not None and slide.window.dilation > 1
        if list(slide.axes) != wanted or dilated:
            found |= {*slide.axes, *wanted}
    return found


def slid(code: Code, placed: Placed, operands: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The operands once strips are exchanged, and the attributes of the op that change for it."""
    found = slides(placed)
    first = operands[0]
    fill = _fill(code, placed, operands)
    for slide in found:
        if slide.window is None:
            code.sent.append(("collective_permute", slide.axes))
            first = code.permute(first, code.devices.mirrored(slide.axes))
        else:
            first = extract(code, first, slide, fill)
    changes = _without_windows(placed, found, code.shape(first))
    return [first, *operands[1:]], changes


def _fill(code: Code, placed: Placed, operands: list[Any]) -> Any:
    if placed.name in ("stablehlo.pad", "stablehlo.reduce_window"):
        return operands[len(operands) // 2]
    return code.splat([], operands[0], 0)


def extract(code: Code, value: Any, slide: Slide, fill: Any) -> Any:
    """What a device's results are made of along a dimension."""
    parts, part, reach = slide.size // slide.part, slide.part, slide.reach
    firsts = [slide.first(device) for device in range(parts)]
    real = [(max(a, 0), min(a + reach, slide.size)) for a in firsts]
    before = max(n * part - a for n, (a, b) in enumerate(real) if a < b) if _any(real) else 0
    after = max(b - (n + 1) * part for n, (a, b) in enumerate(real) if a < b) if _any(real) else 0
    before, after = max(before, 0), max(after, 0)
    if before <= part and after <= part:
        value = _with_strips(code, value, slide, before, after)
        starts = [n * part - before for n in range(parts)]
    else:
        code.sent.append(("all_gather", slide.axes))
        value = code.all_gather(value, slide.axes, slide.dim)
        starts = [0] * parts
    length = code.shape(value)[slide.dim]
    ahead = [a - start for a, start in zip(firsts, starts, strict=True)]
    low = max(0, *(-n for n in ahead))
    high = max(0, *(n + reach - length for n in ahead))
    value = code.pad(value, fill, slide.dim, low, high)
    step = ahead[1] - ahead[0] if parts > 1 else 0
    value = _window(code, value, slide, ahead[0] + low, step, reach)
    if all(a >= 0 and a + reach <= slide.size for a in firsts):
        return value
    return _masked(code, value, slide, firsts, fill)


def _any(intervals: list[tuple[int, int]]) -> bool:
    return any(a < b for a, b in intervals)


def _with_strips(code: Code, value: Any, slide: Slide, before: int, after: int) -> Any:
    pieces = [value]
    if before:
        strip = code.slice(value, slide.dim, slide.part - before, slide.part)
        pieces.insert(0, code.permute(strip, code.devices.neighbours(slide.axes, 1)))
    if after:
        strip = code.slice(value, slide.dim, 0, after)
        pieces.append(code.permute(strip, code.devices.neighbours(slide.axes, -1)))
    if len(pieces) > 1:
        code.sent.append(("collective_permute", slide.axes))
    return code.concatenate(pieces, slide.dim)


def _window(code: Code, value: Any, slide: Slide, first: int, step: int, reach: int) -> Any:
    """`reach` elements from `first` on, and from `step` further on each further device."""
    if not step:
        return code.slice(value, slide.dim, first, first + reach)
    place = code.binary("multiply", code.coordinate(slide.axes), code.scalar(step))
    place = code.binary("add", place, code.scalar(first))
    sizes = code.shape(value)
    sizes[slide.dim] = reach
    return code.dynamic_slice(value, {slide.dim: place}, sizes)


def _masked(code: Code, value: Any, slide: Slide, firsts: list[int], fill: Any) -> Any:
    """`fill` where an element would lie outside of the tensor."""
    shape = code.shape(value)
    step = firsts[1] - firsts[0] if len(firsts) > 1 else 0
    place = code.binary("multiply", code.coordinate(slide.axes), code.scalar(step))
    place = code.binary("add", place, code.scalar(firsts[0]))
    index = code.binary("add", code.iota(shape, slide.dim), code.broadcast(place, shape))
    inside = code.binary(
        "and",
        code.compare("GE", index, code.splat(shape, "i32", 0)),
        code.compare("LT", index, code.splat(shape, "i32", slide.size)),
    )
    return code.select(inside, value, code.broadcast(fill, shape))


def _without_windows(placed: Placed, found: list[Slide], shape: list[int]) -> dict[str, Any]:
    """The op's attributes for an operand whose padding along these dimensions is done."""
    dims = {slide.dim for slide in found if slide.window is not None}
    op = placed.handle
    match placed.name:
        case "stablehlo.slice":
            starts = _replaced(op, "start_indices", range(len(shape)), dims, 0)
            limits = list(map(int, op.attributes["limit_indices"]))
            local = placed.local_operand(0)
            for dim, size in enumerate(placed.shapes[0]):
                if dim in dims:
                    limits[dim] = shape[dim]
                elif limits[dim] == size:
                    limits[dim] = local[dim]
            return {"start_indices": starts, "limit_indices": numbers(limits)}
        case "stablehlo.pad":
            names = ("edge_padding_low", "edge_padding_high")
            return {name: _replaced(op, name, range(len(shape)), dims, 0) for name in names}
        case "stablehlo.reduce_window":
            return {"padding": _padding(op, list(range(len(shape))), dims)}
        case "stablehlo.convolution":
            dimensions = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
            return {"padding": _padding(op, list(dimensions.input_spatial_dimensions), dims)}
        case _:
            return {}


def _replaced(op: Any, name: str, order: Any, dims: set[int], plain: int) -> Any:
    values = list(map(int, op.attributes[name]))
    return numbers([plain if d in dims else v for d, v in zip(order, values, strict=True)])


def _padding(op: Any, order: list[int], dims: set[int]) -> Any:
    rows = np.zeros((len(order), 2), np.int64)
    if "padding" in op.attributes:
        given = np.array(ir.DenseIntElementsAttr(op.attributes["padding"]))
        rows = given.reshape(len(order), 2).astype(np.int64)
    rows[[place for place, dim in enumerate(order) if dim in dims]] = 0
    return ir.DenseIntElementsAttr.get(rows)
