"""Ops with windows over split dimensions: strips of neighbours, and no more than was stated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from tests.laws.indexed import integers
from tests.laws.layout import Array, Shards, assemble, box
from tests.laws.localop import run_local
from tests.laws.windows import Dims, Window, ints, paddings, result_dim, windows_of
from toast.analysis.program import FactorKind

if TYPE_CHECKING:
    from tests.laws.spmd import Placed


@dataclass(slots=True)
class Slid:
    """The first operand of an op with windows, with the dimensions that are split under one."""

    dims: Dims
    whole: Array

    def run(self, placed: Placed, local: list[Array], device: int) -> list[Array]:
        """The op on what a device's results need of the first operand."""
        from tests.laws.spmd import changes_of

        op = placed.handle
        value = placed.program.values_of(placed.op)[0]
        made = box(placed.program.shape(value), placed.results[0], placed.grid, device)
        own = box(self.whole.shape, placed.operands[0], placed.grid, device)
        fill = local[1] if op.name in _FILLED else np.zeros((), local[0].dtype)
        kept = [slice(None) if d in self.dims else part for d, part in enumerate(own)]
        operand = self.whole[tuple(kept)]
        for dim, window in self.dims.items():
            out = made[result_dim(op, dim)]
            operand = _extract(operand, dim, window, (out.start, out.stop), fill)
        changes = changes_of(placed, device) | _without_windows(op, self.dims, operand.shape)
        return run_local(op, [operand, *local[1:]], placed.result_shapes(device), changes)


_FILLED = frozenset({"stablehlo.pad", "stablehlo.reduce_window"})


def slide(placed: Placed, operands: list[Shards], counts: Counter[str]) -> Slid | None:
    """What is split under a window; None when nothing is. Asserts that strips are as stated."""
    spec = placed.operands[0]
    op = placed.handle
    every = windows_of(op)
    dims = {
        d: window
        for d, window in every.items()
        if (spec[d] or placed.results[0][result_dim(op, d)]) and not _is_summed(placed, d)
    }
    if not dims:
        return None
    whole = assemble(operands[0], spec, placed.operand_shape(0), placed.grid)
    slid = Slid(dims=dims, whole=whole)
    counts["collective_permute"] += 1
    for dim, window in dims.items():
        _check_strips(placed, dim, window)
    return slid


def _is_summed(placed: Placed, dim: int) -> bool:
    """Whether the one window that there is covers the dimension: its parts are partial sums."""
    program = placed.program
    name = int(program.use_names(program.uses_of(placed.op)[0])[dim])
    return name >= 0 and program.factor_kind[name] == FactorKind.REDUCTION


def _check_strips(placed: Placed, dim: int, window: Window) -> None:
    from tests.laws.spmd import halo_of

    op = placed.handle
    value = placed.program.values_of(placed.op)[0]
    out = result_dim(op, dim)
    size = placed.operand_shape(0)[dim]
    before = after = 0
    for device in placed.grid.devices:
        made = box(placed.program.shape(value), placed.results[0], placed.grid, device)[out]
        own = box(placed.operand_shape(0), placed.operands[0], placed.grid, device)[dim]
        first, last = _elements(window, (made.start, made.stop), size)
        if first < last:
            before = max(before, own.start - first)
            after = max(after, last - own.stop)
    stated = halo_of(placed, dim)
    if window.mirrored:
        assert stated == size, "every shard moves"
    else:
        assert max(before, 0) + max(after, 0) <= stated, (
            f"{op.name} needs strips of {before} and {after} elements where {stated} are stated"
        )


def _elements(window: Window, results: tuple[int, int], size: int) -> tuple[int, int]:
    """The operand's elements behind some results, as an interval within it."""
    if window.mirrored:
        return size - results[1], size - results[0]
    places = range(*window.reach(*results))
    real = [e for p in places if (e := window.element(p)) is not None and 0 <= e < size]
    return (min(real), max(real) + 1) if real else (0, 0)


def _extract(
    operand: Array, dim: int, window: Window, results: tuple[int, int], fill: Array
) -> Array:
    """The places behind some results, padding and dilation filled in."""
    size = operand.shape[dim]
    if window.mirrored:
        return operand.take(range(*_elements(window, results, size)), axis=dim)
    found = []
    for place in range(*window.reach(*results)):
        element = window.element(place)
        if element is not None and 0 <= element < size:
            found.append(operand.take([element], axis=dim))
        else:
            shape = [1 if d == dim else n for d, n in enumerate(operand.shape)]
            found.append(np.full(shape, fill, dtype=operand.dtype))
    return np.concatenate(found, axis=dim)


def _without_windows(op: Any, dims: Dims, shape: tuple[int, ...]) -> dict[str, Any]:
    """The op's attributes for an operand whose padding and dilation along `dims` is done."""
    rank = len(shape)
    match op.name:
        case "stablehlo.slice":
            starts = _replaced(op, "start_indices", range(rank), dims, 0)
            return {"start_indices": starts, "limit_indices": slice_limits(op, dims, shape)}
        case "stablehlo.pad":
            names = ("edge_padding_low", "edge_padding_high", "interior_padding")
            return {name: _replaced(op, name, range(rank), dims, 0) for name in names}
        case "stablehlo.reduce_window":
            changes = {"base_dilations": _replaced(op, "base_dilations", range(rank), dims, 1)}
            return changes | {"padding": _padding(op, list(range(rank)), dims)}
        case "stablehlo.convolution":
            from tests.laws.windows import conv_dims

            order = list(conv_dims(op).input_spatial_dimensions)
            changes = {"lhs_dilation": _replaced(op, "lhs_dilation", order, dims, 1)}
            return changes | {"padding": _padding(op, order, dims)}
        case _:
            return {}


def slice_limits(op: Any, dims: Dims, shape: tuple[int, ...]) -> Any:
    """Where a slice ends on a device: at the end of what it has, unless it cuts there."""
    full = ir.RankedTensorType(op.operands[0].type).shape
    limits = ints(op, "limit_indices", len(shape), 0)
    rows = enumerate(zip(limits, full, shape, strict=True))
    return integers([n if d in dims or end == size else end for d, (end, size, n) in rows])


def _replaced(op: Any, name: str, order: Any, dims: Dims, plain: int) -> Any:
    values = ints(op, name, len(order), plain)
    return integers([plain if d in dims else v for d, v in zip(order, values, strict=True)])


def _padding(op: Any, order: list[int], dims: Dims) -> Any:
    rows = paddings(op, len(order))
    kept = [(0, 0) if d in dims else row for d, row in zip(order, rows, strict=True)]
    return ir.DenseIntElementsAttr.get(np.array(kept, np.int64).reshape(len(order), 2))
