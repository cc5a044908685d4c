"""Gather, scatter and dynamic_update_slice whose indexed dimension is split over devices.

As XLA does it: each device takes the indices as if its part began at zero, leaves out what lies
outside, and partial results are summed (gather) or stand side by side (scatter, update).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tests.laws.layout import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a device holds of one dimension of the first operand."""

    start: int
    stop: int
    whole: int

    @property
    def size(self) -> int:
        """How many elements."""
        return self.stop - self.start

    @property
    def split(self) -> bool:
        """Whether it is not the whole dimension."""
        return self.size != self.whole


Parts = Sequence[Part]


def integers(values: Sequence[int]) -> Any:
    """The attribute that lists integers."""
    return ir.DenseI64ArrayAttr.get(list(values))


def gather_changes(op: Any, parts: Parts) -> dict[str, Any]:
    """Slices of a dimension that pass it on whole are as long as the device's part."""
    sizes = [int(size) for size in op.attributes["slice_sizes"]]
    local = [
        part.size if size == part.whole else size for size, part in zip(sizes, parts, strict=True)
    ]
    return {"slice_sizes": integers(local)}


def _with_vector(indices: Array, dim: int) -> Array:
    return indices[..., None] if dim == indices.ndim else indices


def local_gather(op: Any, indices: Array, parts: Parts) -> tuple[Array, Array]:
    """Indices into the device's part, and where in the result they hit it (broadcastable)."""
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = [int(size) for size in op.attributes["slice_sizes"]]
    vector = numbers.index_vector_dim
    local = np.moveaxis(_with_vector(indices, vector).copy(), vector, -1)
    hit = np.ones(local.shape[:-1], dtype=bool)
    for component, dim in enumerate(numbers.start_index_map):
        part = parts[dim]
        if part.split and sizes[dim] != part.whole:
            assert sizes[dim] == 1, "a slice that straddles parts"
            index = np.clip(local[..., component].astype(np.int64), 0, part.whole - 1) - part.start
            hit &= (index >= 0) & (index < part.size)
            local[..., component] = np.clip(index, 0, part.size - 1).astype(local.dtype)
    back = np.moveaxis(local, -1, vector).reshape(indices.shape)
    for axis in sorted(numbers.offset_dims):
        hit = np.expand_dims(hit, axis)
    return back, hit


def local_scatter(op: Any, indices: Array, parts: Parts) -> Array:
    """Indices into the device's part; those outside it are out of bounds, and so skipped."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    vector = numbers.index_vector_dim
    local = np.moveaxis(_with_vector(indices, vector).copy(), vector, -1)
    for component, dim in enumerate(numbers.scattered_dims_to_operand_dims):
        if parts[dim].split:
            inserted = dim in list(numbers.inserted_window_dims)
            assert inserted, "an update window that straddles parts"
            local[..., component] -= parts[dim].start
    return np.moveaxis(local, -1, vector).reshape(indices.shape)


def update_slice(operands: Sequence[Array], parts: Parts, whole_update: Sequence[int]) -> Array:
    """dynamic_update_slice on one device's part of the operand."""
    operand, update = operands[0].copy(), operands[1]
    into, taken = [], []
    for d, part in enumerate(parts):
        if whole_update[d] == part.whole:
            into.append(slice(None))
            taken.append(slice(None))
            continue
        assert update.shape[d] == whole_update[d], "an update that is split where it is placed"
        start = int(np.clip(int(operands[2 + d]), 0, part.whole - whole_update[d]))
        first, last = max(start, part.start), min(start + whole_update[d], part.stop)
        last = max(first, last)
        into.append(slice(first - part.start, last - part.start))
        taken.append(slice(first - start, last - start))
    operand[tuple(into)] = update[tuple(taken)]
    return operand
