"""What recomputation asks of single ops and values: what is read, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.operations import operations_within
from toast.analysis.types import itemsize


@dataclass(frozen=True, slots=True)
class Read:
    """A value that an op reads, itself or by an op of its regions: operand `index` of `op`."""

    op: Any
    index: int
    value: Any


def reads(op: ir.Operation) -> Iterator[Read]:
    """Everything that an op and the ops of its regions read, what they make themselves included."""
    for index, value in enumerate(op.operands):
        yield Read(op, index, value)
    for inner in operations_within(op):
        for index, value in enumerate(inner.operands):
            yield Read(inner, index, value)


def is_weight_product(op: ir.Operation) -> bool:
    """Whether an op is a convolution or a product without batch dimensions."""
    if op.name == "stablehlo.dot_general":
        numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
        return not list(numbers.lhs_batching_dimensions)
    return op.name in ("stablehlo.convolution", "stablehlo.dot")


def size_of(value: Any) -> int:
    """The bytes of a value; 0 for what is no tensor."""
    if not isinstance(value.type, ir.RankedTensorType):
        return 0
    kind = ir.RankedTensorType(value.type)
    return round(math.prod(kind.shape) * itemsize(str(kind.element_type)))


def shape_of(value: Any) -> tuple[int, ...]:
    """The dimensions of a value; none for what is no tensor."""
    kind = value.type
    return tuple(ir.RankedTensorType(kind).shape) if isinstance(kind, ir.RankedTensorType) else ()
