"""An op at sizes that are quick to run and that tell the same story.

Equal sizes stay equal, larger ones stay larger, one stays one. Ops whose attributes mention sizes
have their attributes rewritten along; where that cannot be done the op keeps its sizes if they are
small, and is left alone if not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.analysis.shardcombine import windows
from toast.analysis.shardcombine.attributes import integer, integers
from toast.analysis.shardcombine.opcopy import OpCopy, Overrides, Shape, Shapes
from toast.analysis.shardcombine.reshapes import shrink_reshape
from toast.analysis.windows import SlidingWindow

MAX_ELEMENTS = 200_000
_FIRST = 4
_STEP = 2
_KEPT = (0, 4, 8)
"""Sizes up to each of these are kept in turn, for dimensions whose very size means something."""

Candidate = tuple[Shapes, Shapes, Overrides]


def shrink(op: OpCopy) -> OpCopy | None:
    """The op at small sizes, or None when it can be run at none."""
    for operands, results, changed in _CANDIDATES.get(op.name, _by_class)(op):
        small = op.at(operands, results, changed)
        if small is not None and _elements(small) <= MAX_ELEMENTS:
            return small
    return op if _elements(op) <= MAX_ELEMENTS else None


def _elements(op: OpCopy) -> int:
    return sum(math.prod(shape) for shape in op.operands + op.results)


def size_map(shapes: Shapes, kept: int) -> dict[int, int]:
    """Old size -> small even size, in order; sizes up to `kept` and one stay as they are."""
    sizes = sorted({size for shape in shapes for size in shape})
    found: dict[int, int] = {}
    following = max(_FIRST, kept + _STEP)
    for size in sizes:
        if size <= max(kept, 1):
            found[size] = size
        else:
            found[size] = following
            following += _STEP
    return found


def _mapped(shapes: Shapes, sizes: dict[int, int]) -> Shapes:
    return tuple(tuple(sizes[size] for size in shape) for shape in shapes)


def _by_class(op: OpCopy) -> Iterator[Candidate]:
    for kept in _KEPT:
        sizes = size_map(op.operands + op.results, kept)
        operands = _mapped(op.operands, sizes)
        results = _mapped(op.results, sizes)
        for changed in _changes(op, operands, sizes):
            yield operands, results, changed


def _changes(op: OpCopy, operands: Shapes, sizes: dict[int, int]) -> Iterator[Overrides]:
    """Attributes for operands of these sizes; an entry that names a size shrinks as it does."""
    attributes = op.op.attributes
    changed: Overrides = {}
    if "slice_sizes" in attributes:
        values = [sizes.get(size, size) for size in attributes["slice_sizes"]]
        fitting = [min(size, limit) for size, limit in zip(values, operands[0], strict=True)]
        changed["slice_sizes"] = integers(fitting)
    if "fft_length" in attributes:
        lengths = [sizes.get(length, length) for length in attributes["fft_length"]]
        changed["fft_length"] = integers(lengths)
    if "limit_indices" in attributes:
        changed |= _slice_changes(op, operands[0])
    if "edge_padding_low" in attributes:
        changed |= _pad_changes(attributes)
    if "k" in attributes:
        count = int(attributes["k"].value)
        changed["k"] = integer(attributes["k"], sizes.get(count, min(count, 2)))
    yield changed


def _slice_changes(op: OpCopy, small: Shape) -> Overrides:
    attributes = op.op.attributes
    rows = zip(
        attributes["start_indices"],
        attributes["limit_indices"],
        attributes["strides"],
        op.operands[0],
        small,
        strict=True,
    )
    starts, limits, strides = [], [], []
    for start, limit, stride, old, new in rows:
        starts.append(min(start, 1))
        limits.append(new if limit == old else new - 1)
        strides.append(min(stride, 2))
    return {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers(strides),
    }


def _pad_changes(attributes: Any) -> Overrides:
    return {
        name: integers([max(-1, min(value, limit)) for value in attributes[name]])
        for name, limit in (
            ("edge_padding_low", 2),
            ("edge_padding_high", 2),
            ("interior_padding", 1),
        )
    }


def _reshape(op: OpCopy) -> Iterator[Candidate]:
    small = shrink_reshape(op.operands[0], op.results[0])
    if small is not None:
        yield (small[0],), (small[1],), {}


def _listed(op: OpCopy, name: str, count: int, default: int) -> list[int]:
    if name not in op.op.attributes:
        return [default] * count
    return [int(value) for value in op.op.attributes[name]]


def _paddings(op: OpCopy, count: int) -> list[list[int]]:
    if "padding" not in op.op.attributes:
        return [[0, 0]] * count
    values = np.array(ir.DenseIntElementsAttr(op.op.attributes["padding"]))
    return [[int(low), int(high)] for low, high in values.reshape(count, 2)]


def _padding_attribute(windows: list[SlidingWindow]) -> Any:
    values = np.array([[w.low, w.high] for w in windows], np.int64).reshape(len(windows), 2)
    return ir.DenseIntElementsAttr.get(values)


def _windows(
    op: OpCopy, sizes: Sequence[int], widths: Sequence[int], base: str, apart: str
) -> Iterator[SlidingWindow]:
    """The windows of these widths over dimensions of these sizes; two attributes by their names."""
    rank = len(sizes)
    rows = zip(
        sizes,
        widths,
        _listed(op, "window_strides", rank, 1),
        _paddings(op, rank),
        _listed(op, base, rank, 1),
        _listed(op, apart, rank, 1),
        strict=True,
    )
    for size, width, stride, (low, high), dilation, window_dilation in rows:
        yield SlidingWindow(
            size=size,
            width=width,
            stride=stride,
            low=low,
            high=high,
            dilation=dilation,
            window_dilation=window_dilation,
        )


def _reduce_window(op: OpCopy) -> Iterator[Candidate]:
    """`reduce_window` and `select_and_scatter`: a window over every dimension."""
    shape = op.operands[0]
    sizes = size_map((shape,), 0)
    small: list[SlidingWindow] = []
    widths = _listed(op, "window_dimensions", len(shape), 1)
    for window in _windows(op, shape, widths, "base_dilations", "window_dilations"):
        plain = replace(window, window_dilation=1) == _plain(window.size)
        shrunk = _plain(sizes[window.size]) if plain else windows.shrink(window)
        if shrunk is None:
            return
        small.append(shrunk)
    inputs = tuple(window.size for window in small)
    steps = tuple(window.steps for window in small)
    changed: Overrides = {
        "window_dimensions": integers([window.width for window in small]),
        "padding": _padding_attribute(small),
    }
    if op.name == "stablehlo.select_and_scatter":
        yield (inputs, steps, ()), (inputs,), changed
        return
    operands = tuple(inputs if shape else () for shape in op.operands)
    yield operands, (steps,) * len(op.results), changed


def _plain(size: int) -> SlidingWindow:
    return SlidingWindow(size=size, width=1)


def _convolution(op: OpCopy) -> Iterator[Candidate]:
    names = _ConvDims(op)
    left, right = op.operands
    sizes, widths = [left[dim] for dim in names.left], [right[dim] for dim in names.right]
    spatial: list[SlidingWindow] = []
    for window in _windows(op, sizes, widths, "lhs_dilation", "rhs_dilation"):
        shrunk = windows.shrink(window)
        if shrunk is None:
            return
        spatial.append(shrunk)
    yield names.candidate(spatial)


class _ConvDims:
    """Which dimension of a convolution is which."""

    def __init__(self, op: OpCopy) -> None:
        text = str(op.op.attributes["dimension_numbers"])
        body = text[text.index("<") + 1 : text.rindex(">")]
        left, rest = body.split("x[", 1)
        right, result = rest.split("->")
        self._op = op
        self._left = [part.strip() for part in left.strip("[]").split(",")]
        self._right = [part.strip() for part in right.strip("[]").split(",")]
        self._result = [part.strip() for part in result.strip("[]").split(",")]
        spatial = [str(index) for index in range(len(self._left) - 2)]
        self.left = [self._left.index(name) for name in spatial]
        self.right = [self._right.index(name) for name in spatial]

    def candidate(self, spatial: list[SlidingWindow]) -> Candidate:
        """Operands and result with these windows and few channels."""
        attributes = self._op.op.attributes
        features = min(2, int(attributes["feature_group_count"].value))
        batches = min(2, int(attributes["batch_group_count"].value))
        left, right = self._op.operands
        inner = _even(right[self._right.index("i")], 4)
        outer = _even(right[self._right.index("o")] // (features * batches), 6)
        batch = _even(left[self._left.index("b")], 8)
        sizes = {
            "b": batch * batches if batches > 1 else batch,
            "f": inner * features,
            "i": inner,
            "o": outer * features * batches,
        }
        inputs = {str(index): window.size for index, window in enumerate(spatial)}
        filters = {str(index): window.width for index, window in enumerate(spatial)}
        steps = {str(index): window.steps for index, window in enumerate(spatial)}
        outputs = {"b": batch, "f": sizes["o"]}
        operands = (
            tuple((sizes | inputs)[name] for name in self._left),
            tuple((sizes | filters)[name] for name in self._right),
        )
        results = (tuple((outputs | steps)[name] for name in self._result),)
        changed = {
            "feature_group_count": integer(attributes["feature_group_count"], features),
            "batch_group_count": integer(attributes["batch_group_count"], batches),
            "padding": _padding_attribute(spatial),
        }
        return operands, results, changed


def _even(old: int, small: int) -> int:
    return old if old <= 1 else small


_CANDIDATES: dict[str, Callable[[OpCopy], Iterator[Candidate]]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": _reshape,
    "stablehlo.select_and_scatter": _reduce_window,
}
