"""Gathers and scatters of windows that may begin anywhere in a dimension that they keep.

`jax.vmap(lambda row: table[row])` is a gather of windows of one row whose index names both
dimensions, and its gradient a scatter of such windows; `table[rows]` names the row alone, which is
gone from the window.
"""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def placed(op: Any) -> int:
    """How many windows a gather, or a scatter into one operand, places so; 0 for all other ops.

    A gather does where a part of a dimension, of more than one element, may begin anywhere in it,
    unless it has dimensions of a batch. A scatter also does where that part is one element, but the
    window has that dimension still.
    """
    if op.name == "stablehlo.gather":
        numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
        shape, batched = _shape(op.operands[0]), list(numbers.operand_batching_dims)
        cut = [dim for dim in numbers.start_index_map if 1 < sizes[dim] < shape[dim]]
        return 0 if batched or not cut else _count(op.operands[1], numbers.index_vector_dim)
    if op.name == "stablehlo.scatter" and len(op.results) == 1:
        scattered = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
        indexed = set(scattered.scattered_dims_to_operand_dims)
        kept = indexed - set(scattered.inserted_window_dims)
        return _count(op.operands[1], scattered.index_vector_dim) if kept else 0
    return 0


def _count(indices: Any, vector: int) -> int:
    return math.prod(size for dim, size in enumerate(_shape(indices)) if dim != vector)


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)
