"""Ops whose results are made from windows over their first operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How the results along a dimension are made from the first operand along it.

    `low` is the padding in front, negative where elements are left out; `dilation` that of the
    operand, `window_dilation` that of the window, as StableHLO means them.
    """

    width: int = 1
    stride: int = 1
    low: int = 0
    dilation: int = 1
    window_dilation: int = 1

    @property
    def reach(self) -> int:
        """Elements from the first to the last that a window covers."""
        return (self.width - 1) * self.window_dilation + 1

    def strip(self, size: int, results: int) -> int:
        """Elements that shards need of both neighbours together, at most.

        Shard boundaries lie at equal parts of the operand (`size`) and of the results; what is
        wanted beyond one is linear in its place, so it is largest at one of the ends.
        """
        first = [-self.low, results * self.stride - self.low]
        last = [place - self.stride + (self.width - 1) * self.window_dilation for place in first]
        ends = list(zip((0, size), first, last, strict=True))
        before = max(math.floor(own - place / self.dilation) for own, place, _ in ends)
        after = max(math.floor(place / self.dilation) + 1 - own for own, _, place in ends)
        return min(max(before, 0) + max(after, 0), size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow(Window):
    """A window over a dimension of `size` elements, padded with `high` behind."""

    size: int
    high: int = 0

    @property
    def pads(self) -> tuple[int, int]:
        """Padding before and after."""
        return self.low, self.high

    @property
    def padded(self) -> int:
        """Elements to slide over, dilated and padded."""
        return (self.size - 1) * self.dilation + 1 + self.low + self.high

    @property
    def steps(self) -> int:
        """How many places the window takes: the size of the result."""
        return (self.padded - self.reach) // self.stride + 1


Windows = dict[int, tuple[Window | None, int]]
"""Operand dimension -> its window (None: everything moves) and the result's dimension."""


def _ints(op: Any, name: str, count: int, default: int) -> list[int]:
    return [int(v) for v in op.attributes[name]] if name in op.attributes else [default] * count


def _pads(op: Any, count: int, side: int) -> list[int]:
    if "padding" not in op.attributes:
        return [0] * count
    pairs = np.array(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(count, 2)
    return [int(pad) for pad in pairs[:, side]]


def _lows(op: Any, count: int) -> list[int]:
    return _pads(op, count, 0)


def _highs(op: Any, count: int) -> list[int]:
    return _pads(op, count, 1)


def _slice(op: Any) -> Windows:
    starts = [int(v) for v in op.attributes["start_indices"]]
    strides = [int(v) for v in op.attributes["strides"]]
    rows = enumerate(zip(starts, strides, strict=True))
    return {d: (Window(low=-start, stride=stride), d) for d, (start, stride) in rows}


def _pad(op: Any) -> Windows:
    lows = [int(v) for v in op.attributes["edge_padding_low"]]
    interiors = [int(v) for v in op.attributes["interior_padding"]]
    rows = enumerate(zip(lows, interiors, strict=True))
    return {d: (Window(low=low, dilation=interior + 1), d) for d, (low, interior) in rows}


def _reverse(op: Any) -> Windows:
    return {int(d): (None, int(d)) for d in op.attributes["dimensions"]}


def _reduce_window(op: Any) -> Windows:
    rank = len(op.attributes["window_dimensions"])
    rows = zip(
        _ints(op, "window_dimensions", rank, 1),
        _ints(op, "window_strides", rank, 1),
        _lows(op, rank),
        _ints(op, "base_dilations", rank, 1),
        _ints(op, "window_dilations", rank, 1),
        strict=True,
    )
    return {d: (_window(row), d) for d, row in enumerate(rows)}


def _window(row: tuple[int, int, int, int, int]) -> Window:
    width, stride, low, dilation, window_dilation = row
    return Window(
        width=width, stride=stride, low=low, dilation=dilation, window_dilation=window_dilation
    )


def _select_and_scatter(op: Any) -> Windows:
    """The windows of an element are those that begin up to a width before it."""
    widths = [int(v) for v in op.attributes["window_dimensions"]]
    return {d: (Window(width=2 * w - 1, low=w - 1), d) for d, w in enumerate(widths)}


def _convolution(op: Any) -> Windows:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    inputs = list(numbers.input_spatial_dimensions)
    filters = ir.RankedTensorType(op.operands[1].type).shape
    count = len(inputs)
    rows = zip(
        [filters[d] for d in numbers.kernel_spatial_dimensions],
        _ints(op, "window_strides", count, 1),
        _lows(op, count),
        _ints(op, "lhs_dilation", count, 1),
        _ints(op, "rhs_dilation", count, 1),
        strict=True,
    )
    outputs = numbers.output_spatial_dimensions
    return {d: (_window(row), out) for d, row, out in zip(inputs, rows, outputs, strict=True)}


READERS: dict[str, Callable[[Any], Windows]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reverse": _reverse,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.slice": _slice,
}


def strided(op: Any) -> int:
    """How near the end of a shape a slice strides, or a pad pads between elements; else 0.

    One more than the number of dimensions behind the innermost of them.
    """
    if op.name not in ("stablehlo.slice", "stablehlo.pad"):
        return 0
    shape = ir.RankedTensorType(op.results[0].type).shape
    rows = READERS[op.name](op).items()
    strides = {d: max(one.stride, one.dilation) for d, (one, _) in rows if one is not None}
    inner = [d for d, stride in strides.items() if stride > 1 and shape[d] > 1]
    return len(shape) - max(inner) if inner else 0


def splits(op: Any) -> int:
    """How pixels fall into blocks that a convolution puts apart, with zeros between; else 0.

    1 where it pads before them by as many as they are apart, so that blocks overlap, and 2 by one
    less, along each dimension along which it does so. One pixel is convolved without padding.
    """
    if op.name != "stablehlo.convolution":
        return 0
    windows = (one for one, _ in READERS[op.name](op).values() if one is not None)
    apart = [one for one in windows if one.dilation > 1]
    more = {one.low - one.dilation + 2 if one.width > 1 or one.low else 1 for one in apart}
    if not more <= {1, 2} or not apart:
        return 0
    return 1 if 2 in more else 2


def padded(op: Any) -> float:
    """How many times its own size the image of a convolution has once it is padded.

    1 where it is padded alike on both sides and not between its elements, and where the filter is
    turned round: that is the gradient of such an image. The gradient of a filter takes the steps of
    its convolution between the elements of its window: of it only what one side has more counts.
    """
    if op.name != "stablehlo.convolution" or _is_turned(op.operands[1]):
        return 1.0
    shape = ir.RankedTensorType(op.operands[0].type).shape
    windows = {d: one for d, (one, _) in READERS[op.name](op).items() if one is not None}
    highs = dict(zip(windows, _highs(op, len(windows)), strict=True))
    pads = {d: (max(one.low, 0), max(highs[d], 0)) for d, one in windows.items()}
    if all(one.dilation == 1 and len(set(pads[d])) == 1 for d, one in windows.items()):
        return 1.0
    if any(one.window_dilation > 1 for one in windows.values()):
        return math.prod((shape[d] + abs(low - high)) / shape[d] for d, (low, high) in pads.items())
    sizes = {d: (shape[d] - 1) * one.dilation + 1 + sum(pads[d]) for d, one in windows.items()}
    return math.prod(size / shape[d] for d, size in sizes.items())


def _is_turned(filters: Any) -> bool:
    owner = filters.owner
    return not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.reverse"
