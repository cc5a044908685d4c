"""Ops with windows: how wide a strip of its neighbours a shard needs.

Shardy says which factors need strips (permutation factors) and not how wide. Strided convolutions
it describes as if windows never overlapped; that is put right here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from analysis.program import FactorKind
from analysis.rules import Rule, Shape, major


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


WIDEST = 4
"""A slice or pad that moves elements by more than one in this many of the dimension is no strip
exchange: it makes another dimension (half of the heads, one of two joined inputs)."""
_MOVING = frozenset({"stablehlo.slice", "stablehlo.pad", "stablehlo.reverse"})
_PADDED = frozenset({"stablehlo.pad", "stablehlo.convolution", "stablehlo.reduce_window"})
_CONVOLUTION = "stablehlo.convolution"
_SCATTERING = frozenset({"stablehlo.select_and_scatter"})


def with_halos(
    op: ir.Operation, rule: Rule, operands: Sequence[Shape], results: Sequence[Shape]
) -> tuple[Rule, tuple[int, ...] | None]:
    """The rule of an op with strips where its windows need them, and the strips' widths.

    The widths, in elements, are one per factor; None for an op that needs none. The size of a
    factor with strips becomes one that axes divide only where XLA can split the op evenly.
    """
    if op.name == "stablehlo.concatenate" and FactorKind.HALO in rule.kinds:
        joined = _joined_widths(op, rule, operands, results)
        return _evenly(rule, rule.kinds, [*operands, *results], {}), joined
    if op.name not in _READERS:
        return rule, _unknown_widths(rule)
    kinds, widths = list(rule.kinds), [0] * len(rule.sizes)
    reaches: dict[int, int] = {}
    for dim, (window, made) in _READERS[op.name](op).items():
        size = operands[0][dim]
        strip = size if window is None else window.strip(size, results[0][made])
        factors = [factor for factor in rule.operands[0][dim] if rule.sizes[factor] > 1]
        if window is not None and window.width > 1 and strip:
            _close_window(factors, kinds)
        factor = major(rule.sizes, rule.operands[0][dim])
        if factor >= 0 and kinds[factor] in (FactorKind.PARALLEL, FactorKind.HALO) and strip:
            wide = op.name in _MOVING and strip * WIDEST > size
            wide = wide or (window is not None and _is_fragile(op.name, window))
            wide = wide or (op.name == _CONVOLUTION and _has_features(op, operands[1]))
            reaches[factor] = 1 if window is None else window.reach
            kinds[factor] = FactorKind.BLOCKED if wide else FactorKind.HALO
            widths[factor] = 0 if wide else max(widths[factor], strip)
    if op.name == _CONVOLUTION and _is_grouped_product(op, operands[1]):
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        for factor in rule.operands[1][numbers.kernel_output_feature_dimension]:
            kinds[factor] = FactorKind.BLOCKED
    shapes = [*operands, *results]
    return _evenly(rule, tuple(kinds), shapes, reaches), tuple(widths)


def _has_features(op: Any, kernel: Shape) -> bool:
    """Whether the kernel's output features can be split: never together with what it slides over.

    XLA then adds up results that are not partial.
    """
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    return kernel[numbers.kernel_output_feature_dimension] > 1


def _is_grouped_product(op: Any, kernel: Shape) -> bool:
    """Whether a convolution with groups slides nothing: XLA loses count of the groups there."""
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    grouped = int(op.attributes["feature_group_count"].value) > 1
    return grouped and all(kernel[d] == 1 for d in numbers.kernel_spatial_dimensions)


def _is_fragile(name: str, window: Window) -> bool:
    """Windows that XLA's partitioner gets wrong or dies of (see docs/ops.md)."""
    return name in _SCATTERING or window.dilation > 1 or (name in _PADDED and window.low < 0)


def _evenly(
    rule: Rule,
    kinds: tuple[FactorKind, ...],
    shapes: Sequence[Shape],
    reaches: dict[int, int],
) -> Rule:
    """The rule with factors that need strips as small as evenness asks.

    Axes may split such a factor where they divide every dimension that it stands in and leave each
    device at least one window; its size becomes the largest that says so.
    """
    sizes, changed = list(rule.sizes), list(kinds)
    for factor in (f for f, kind in enumerate(kinds) if kind == FactorKind.HALO):
        found = [
            size
            for dims, shape in zip(rule.operands + rule.results, shapes, strict=True)
            for factors, size in zip(dims, shape, strict=True)
            if factor in factors
        ]
        common, most = math.gcd(*found), min(found) // reaches.get(factor, 1)
        even = max((n for n in range(1, min(common, most) + 1) if common % n == 0), default=1)
        if even > 1:
            sizes[factor] = even
        else:
            changed[factor] = FactorKind.BLOCKED
    return replace(rule, sizes=tuple(sizes), kinds=tuple(changed))


def _close_window(factors: list[int], kinds: list[FactorKind]) -> None:
    """A factor for the inside of the windows means nothing where windows overlap."""
    for factor in factors:
        if kinds[factor] == FactorKind.REDUCTION:
            kinds[factor] = FactorKind.BLOCKED


def _joined_widths(
    op: Any, rule: Rule, operands: Sequence[Shape], results: Sequence[Shape]
) -> tuple[int, ...]:
    """Slices of one value joined again (a roll): each is shifted by what the others put before."""
    dim = int(op.attributes["dimension"].value)
    whole = results[0][dim]
    width = max(min(shape[dim], whole - shape[dim]) for shape in operands)
    return tuple(width if kind == FactorKind.HALO else 0 for kind in rule.kinds)


def _unknown_widths(rule: Rule) -> tuple[int, ...] | None:
    if FactorKind.HALO not in rule.kinds:
        return None
    return tuple(int(kind == FactorKind.HALO) for kind in rule.kinds)


def _ints(op: Any, name: str, count: int, default: int) -> list[int]:
    return [int(v) for v in op.attributes[name]] if name in op.attributes else [default] * count


def _lows(op: Any, count: int) -> list[int]:
    if "padding" not in op.attributes:
        return [0] * count
    pairs = np.array(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(count, 2)
    return [int(low) for low in pairs[:, 0]]


Read = dict[int, tuple[Window | None, int]]
"""Operand dimension -> its window (None: everything moves) and the result's dimension."""


def _slice(op: Any) -> Read:
    starts = [int(v) for v in op.attributes["start_indices"]]
    strides = [int(v) for v in op.attributes["strides"]]
    rows = enumerate(zip(starts, strides, strict=True))
    return {d: (Window(low=-start, stride=stride), d) for d, (start, stride) in rows}


def _pad(op: Any) -> Read:
    lows = [int(v) for v in op.attributes["edge_padding_low"]]
    interiors = [int(v) for v in op.attributes["interior_padding"]]
    rows = enumerate(zip(lows, interiors, strict=True))
    return {d: (Window(low=low, dilation=interior + 1), d) for d, (low, interior) in rows}


def _reverse(op: Any) -> Read:
    return {int(d): (None, int(d)) for d in op.attributes["dimensions"]}


def _reduce_window(op: Any) -> Read:
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


def _select_and_scatter(op: Any) -> Read:
    """The windows of an element are those that begin up to a width before it."""
    widths = [int(v) for v in op.attributes["window_dimensions"]]
    return {d: (Window(width=2 * w - 1, low=w - 1), d) for d, w in enumerate(widths)}


def _convolution(op: Any) -> Read:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    inputs = list(numbers.input_spatial_dimensions)
    kernel = ir.RankedTensorType(op.operands[1].type).shape
    count = len(inputs)
    rows = zip(
        [kernel[d] for d in numbers.kernel_spatial_dimensions],
        _ints(op, "window_strides", count, 1),
        _lows(op, count),
        _ints(op, "lhs_dilation", count, 1),
        _ints(op, "rhs_dilation", count, 1),
        strict=True,
    )
    outputs = numbers.output_spatial_dimensions
    return {d: (_window(row), out) for d, row, out in zip(inputs, rows, outputs, strict=True)}


_READERS: dict[str, Callable[[Any], Read]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reverse": _reverse,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.slice": _slice,
}
