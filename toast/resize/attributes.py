"""Attributes that state sizes or places, at the new sizes of an op's tensors.

Where an op takes a part of a dimension, it takes one at about the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.resize.constants import resize_constant
from toast.resize.equations import gathered
from toast.resize.relations import CountedWindow

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """The shapes of an op's tensors, before and after; its windows where it has some."""

    old: tuple[Shape, ...]
    new: tuple[Shape, ...]
    old_result: Shape
    new_result: Shape
    windows: tuple[CountedWindow, ...] = ()


def resize_attributes(op: Any, resizing: Resizing) -> None:
    """Change what the attributes of an op say of sizes."""
    change = _CHANGES.get(op.name)
    if change is not None:
        change(op, resizing)


def _integers(values: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get([int(value) for value in values])


def _given(op: Any, name: str) -> list[int]:
    return [int(value) for value in op.attributes[name]]


def moved(start: int, taken: int, old: int, new_taken: int, new: int) -> int:
    """Where a part begins: at an end if it was there, else in the same proportion."""
    if start == 0 or old == taken:
        return 0 if start == 0 else min(start, new - new_taken)
    if start + taken == old:
        return new - new_taken
    return min(round(start * new / old), new - new_taken)


def _constant(op: Any, resizing: Resizing) -> None:
    resize_constant(op, resizing.new_result)


def _span(count: int, stride: int) -> int:
    """From the first to the last of so many elements."""
    return (count - 1) * stride + 1 if count else 0


def _slice(op: Any, resizing: Resizing) -> None:
    starts, limits = [], []
    strides = _given(op, "strides")
    for dim, start in enumerate(_given(op, "start_indices")):
        stride = strides[dim]
        span = _span(resizing.old_result[dim], stride)
        new_span = _span(resizing.new_result[dim], stride)
        size, new_size = resizing.old[0][dim], resizing.new[0][dim]
        begin = moved(start, span, size, new_span, new_size)
        starts.append(begin)
        limits.append(begin + new_span)
    op.attributes["start_indices"] = _integers(starts)
    op.attributes["limit_indices"] = _integers(limits)


def _pad(op: Any, resizing: Resizing) -> None:
    lows, highs = [], []
    interior = _given(op, "interior_padding")
    for dim, before in enumerate(_given(op, "edge_padding_low")):
        span = _span(resizing.old[0][dim], interior[dim] + 1)
        new_span = _span(resizing.new[0][dim], interior[dim] + 1)
        size, new_size = resizing.old_result[dim], resizing.new_result[dim]
        moves = before > 0 and (span, size) != (new_span, new_size)
        low = moved(before, span, size, new_span, new_size) if moves else before
        lows.append(low)
        highs.append(new_size - new_span - low)
    op.attributes["edge_padding_low"] = _integers(lows)
    op.attributes["edge_padding_high"] = _integers(highs)


def _dynamic_slice(op: Any, resizing: Resizing) -> None:
    op.attributes["slice_sizes"] = _integers(resizing.new_result)


def _gather(op: Any, resizing: Resizing) -> None:
    sizes = _given(op, "slice_sizes")
    for dim, offset in gathered(op):
        sizes[dim] = resizing.new_result[offset]
    op.attributes["slice_sizes"] = _integers(sizes)


def _windows(op: Any, resizing: Resizing) -> None:
    numbers = resizing.windows
    padding = np.array([[one.low, one.high] for one in numbers], np.int64).reshape(-1, 2)
    if padding.any() or "padding" in op.attributes:
        op.attributes["padding"] = ir.DenseIntElementsAttr.get(padding)
    if "window_dimensions" in op.attributes:
        op.attributes["window_dimensions"] = _integers([one.width for one in numbers])


_CHANGES: dict[str, Callable[[Any, Resizing], None]] = {
    "sdy.constant": _constant,
    "stablehlo.constant": _constant,
    "stablehlo.convolution": _windows,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.gather": _gather,
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _windows,
    "stablehlo.select_and_scatter": _windows,
    "stablehlo.slice": _slice,
}
