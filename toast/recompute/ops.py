"""What recomputation asks of single ops: what they read, and whether they may run twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.types import itemsize

_DIALECTS = ("stablehlo.", "sdy.", "chlo.")
_ONCE = frozenset(
    f"stablehlo.{name}"
    for name in ("rng", "infeed", "outfeed", "send", "recv", "create_token", "after_all")
)
"""Ops that do not make the same of the same operands, or do more than make something."""


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
    for inner in inner_ops(op):
        for index, value in enumerate(inner.operands):
            yield Read(inner, index, value)


def inner_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of an op's regions, at any depth."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from inner_ops(view.operation)


def may_run_twice(op: ir.Operation) -> bool:
    """Whether an op makes the same a second time and does nothing else."""
    return all(_is_pure(one) for one in (op, *inner_ops(op)))


def _is_pure(op: ir.Operation) -> bool:
    if op.name in _ONCE or not op.name.startswith(_DIALECTS):
        return False
    if op.name == "stablehlo.custom_call" and "has_side_effect" in op.attributes:
        return not op.attributes["has_side_effect"].value
    return True


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
