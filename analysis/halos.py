"""Ops with windows: how wide a strip of its neighbours a shard needs.

Shardy says which factors need strips (permutation factors) and not how wide. It describes strided
convolutions as if windows never overlapped; this module corrects that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.patches import patches_outside
from toast.analysis.program import FactorKind
from toast.analysis.rules import Rule, Shape, major
from toast.analysis.windows import READERS, Window

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
    if op.name not in READERS:
        return rule, _unknown_widths(rule)
    windows = READERS[op.name](op)
    if op.name == _CONVOLUTION:
        rule = patches_outside(rule, windows)
    kinds, widths = list(rule.kinds), [0] * len(rule.sizes)
    reaches: dict[int, int] = {}
    for dim, (window, made) in windows.items():
        size = operands[0][dim]
        strip = size if window is None else window.strip(size, results[0][made])
        factors = [factor for factor in rule.operands[0][dim] if rule.sizes[factor] > 1]
        if window is not None and window.width > 1 and strip:
            _close_window(factors, kinds)
        factor = major(rule.sizes, rule.operands[0][dim])
        fragile = window is not None and _is_fragile(op.name, window)
        movable = factor >= 0 and kinds[factor] in (FactorKind.PARALLEL, FactorKind.HALO)
        if movable and (strip or fragile):
            wide = fragile or (op.name in _MOVING and strip * WIDEST > size)
            wide = wide or (op.name == _CONVOLUTION and _has_features(op, operands[1]))
            reaches[factor] = 1 if window is None else window.reach
            kinds[factor] = FactorKind.BLOCKED if wide else FactorKind.HALO
            widths[factor] = 0 if wide else max(widths[factor], strip)
    if op.name == _CONVOLUTION and _is_grouped_product(op, operands[1], results[0]):
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        for factor in rule.operands[1][numbers.kernel_output_feature_dimension]:
            kinds[factor] = FactorKind.BLOCKED
    shapes = [*operands, *results]
    return _evenly(rule, tuple(kinds), shapes, reaches), tuple(widths)


def _has_features(op: Any, filters: Shape) -> bool:
    """Whether a filter's output features can be split: never together with what it slides over.

    XLA then adds up results that are not partial.
    """
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    return filters[numbers.kernel_output_feature_dimension] > 1


def _is_grouped_product(op: Any, filters: Shape, made: Shape) -> bool:
    """Whether a convolution with groups slides nothing: XLA loses count of the groups there."""
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    grouped = int(op.attributes["feature_group_count"].value) > 1
    spatial = zip(numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions, strict=True)
    return grouped and all(filters[d] == 1 or made[out] == 1 for d, out in spatial)


def _is_fragile(name: str, window: Window) -> bool:
    """Windows that XLA's partitioner gets wrong or dies of (see docs/ops.md)."""
    scattering = name in _SCATTERING and window.width > 1
    return scattering or window.dilation > 1 or (name in _PADDED and window.low < 0)


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
