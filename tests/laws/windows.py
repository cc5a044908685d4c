"""Dimensions that a window slides over: what a device needs of its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How the results along one dimension are made from the operand along it."""

    width: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    window_dilation: int = 1
    mirrored: bool = False

    @property
    def plain(self) -> bool:
        """Result i is made from operand i alone."""
        return self == Window()

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """Places of the dilated and padded operand behind results `start` to `stop`."""
        first = start * self.stride
        return first, (stop - 1) * self.stride + (self.width - 1) * self.window_dilation + 1

    def element(self, place: int) -> int | None:
        """The operand's element at a place; None between elements. May be out of bounds."""
        index, rest = divmod(place - self.low, self.dilation)
        return None if rest else index


Dims = dict[int, Window]
"""Dimension of the first operand -> its window."""


def ints(op: Any, name: str, count: int, default: int) -> list[int]:
    """An attribute that lists integers."""
    return [int(v) for v in op.attributes[name]] if name in op.attributes else [default] * count


def paddings(op: Any, count: int) -> list[tuple[int, int]]:
    """Low and high padding of each window dimension."""
    if "padding" not in op.attributes:
        return [(0, 0)] * count
    values = np.array(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(count, 2)
    return [(int(low), int(high)) for low, high in values]


def _slice(op: Any, rank: int) -> Dims:
    shape = ir.RankedTensorType(op.operands[0].type).shape
    rows = zip(ints(op, "start_indices", rank, 0), ints(op, "strides", rank, 1), shape, strict=True)
    limits = ints(op, "limit_indices", rank, 0)
    return {
        d: Window(low=-start, stride=stride, high=limits[d] - size)
        for d, (start, stride, size) in enumerate(rows)
    }


def _pad(op: Any, rank: int) -> Dims:
    rows = zip(
        ints(op, "edge_padding_low", rank, 0),
        ints(op, "edge_padding_high", rank, 0),
        ints(op, "interior_padding", rank, 0),
        strict=True,
    )
    return {
        d: Window(low=low, high=high, dilation=interior + 1)
        for d, (low, high, interior) in enumerate(rows)
    }


def _reduce_window(op: Any, rank: int) -> Dims:
    rows = zip(
        ints(op, "window_dimensions", rank, 1),
        ints(op, "window_strides", rank, 1),
        paddings(op, rank),
        ints(op, "base_dilations", rank, 1),
        ints(op, "window_dilations", rank, 1),
        strict=True,
    )
    return {
        d: Window(
            width=width, stride=stride, low=low, high=high, dilation=base, window_dilation=dilation
        )
        for d, (width, stride, (low, high), base, dilation) in enumerate(rows)
    }


def _convolution(op: Any, rank: int) -> Dims:
    numbers = conv_dims(op)
    filters = ir.RankedTensorType(op.operands[1].type).shape
    count = rank - 2
    rows = zip(
        [filters[d] for d in numbers.kernel_spatial_dimensions],
        ints(op, "window_strides", count, 1),
        paddings(op, count),
        ints(op, "lhs_dilation", count, 1),
        ints(op, "rhs_dilation", count, 1),
        strict=True,
    )
    return {
        d: Window(
            width=width, stride=stride, low=low, high=high, dilation=base, window_dilation=dilation
        )
        for d, (width, stride, (low, high), base, dilation) in zip(
            numbers.input_spatial_dimensions, rows, strict=True
        )
    }


def conv_dims(op: Any) -> Any:
    """The dimension numbers of a convolution."""
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])


def _reverse(op: Any, rank: int) -> Dims:
    mirrored = {int(d) for d in op.attributes["dimensions"]}
    return {d: Window(mirrored=d in mirrored) for d in range(rank)}


_READERS: dict[str, Callable[[Any, int], Dims]] = {
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.convolution": _convolution,
    "stablehlo.reverse": _reverse,
}


def windows_of(op: Any) -> Dims:
    """The windows of an op, plain ones left out; empty for an op that has none."""
    if op.name not in _READERS:
        return {}
    rank = len(ir.RankedTensorType(op.operands[0].type).shape)
    return {d: window for d, window in _READERS[op.name](op, rank).items() if not window.plain}


def result_dim(op: Any, dim: int) -> int:
    """The result's dimension that a window over the operand's `dim` makes."""
    if op.name != "stablehlo.convolution":
        return dim
    numbers = conv_dims(op)
    place = list(numbers.input_spatial_dimensions).index(dim)
    return int(numbers.output_spatial_dimensions[place])
