"""The same module with its sums in another order, which is what partitioning does to them.

Every product, convolution, reduction and scatter that adds up is made in two halves that are then
added. What changes by that in the results is rounding, and says how much of it there may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.forms import bytecode


def reordered(module: ir.Module) -> ir.Module:
    """A copy of `module` whose sums are made in halves."""
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(bytecode(module))
        for op in list(_sums(copy.operation)):
            _SPLITTERS[op.name](op)
        copy.operation.verify()
        return copy


def _sums(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                if inner.name in _SPLITTERS:
                    yield inner
                else:
                    yield from _sums(inner)


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _half(value: Any, dim: int, second: bool) -> Any:
    """The first or the second half of a value along one of its dimensions."""
    kind = ir.RankedTensorType(value.type)
    shape = list(kind.shape)
    starts, limits = [0] * len(shape), shape.copy()
    middle = shape[dim] // 2
    (starts if second else limits)[dim] = middle
    sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    return ir.Operation.create(
        "stablehlo.slice",
        results=[ir.RankedTensorType.get(sizes, kind.element_type)],
        operands=[value],
        attributes={
            "start_indices": ir.DenseI64ArrayAttr.get(starts),
            "limit_indices": ir.DenseI64ArrayAttr.get(limits),
            "strides": ir.DenseI64ArrayAttr.get([1] * len(shape)),
        },
    ).results[0]


def _in_halves(op: Any, dims: dict[int, int]) -> Any:
    """Let `op` work on the first half of its operands (by number) along `dims`.

    Returns a copy of it that works on the second half.
    """
    values = {number: op.operands[number] for number in dims}
    with ir.InsertionPoint(op):
        other = op.clone()
        for number, value in values.items():
            op.operands[number] = _half(value, dims[number], second=False)
            other.operands[number] = _half(value, dims[number], second=True)
        other.move_before(op)
    return other


def _add(op: Any, other: Any) -> None:
    """Add the results of two ops, the second one first, wherever that of `op` is used."""
    users = [(use.owner, use.operand_number) for use in op.results[0].uses]
    other.move_after(op)
    block = op.block
    operations = list(block.operations)
    place = next(i for i, view in enumerate(operations) if view.operation == other)
    with ir.InsertionPoint(operations[place + 1]):
        total = ir.Operation.create(
            "stablehlo.add",
            results=[op.results[0].type],
            operands=[other.results[0], op.results[0]],
        ).results[0]
    for user, number in users:
        user.operands[number] = total


def _dot(op: Any) -> None:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left = list(numbers.lhs_contracting_dimensions)
    right = list(numbers.rhs_contracting_dimensions)
    shape = _shape(op.operands[0])
    widest = max(range(len(left)), key=lambda i: shape[left[i]], default=None)
    if widest is not None and shape[left[widest]] > 1:
        _add(op, _in_halves(op, {0: left[widest], 1: right[widest]}))


def _convolution(op: Any) -> None:
    groups = [op.attributes[f"{side}_group_count"].value for side in ("feature", "batch")]
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    left, right = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
    if groups == [1, 1] and _shape(op.operands[0])[left] > 1:
        _add(op, _in_halves(op, {0: left, 1: right}))


def _adds(op: Any) -> bool:
    """Whether an op with a region adds up one tensor of floats."""
    block = op.regions[0].blocks[0]
    names = [view.operation.name for view in block.operations]
    return names == ["stablehlo.add", "stablehlo.return"] and len(op.results) == 1


def _reduce(op: Any) -> None:
    shape = _shape(op.operands[0])
    dims = [int(dim) for dim in op.attributes["dimensions"]]
    widest = max(dims, key=shape.__getitem__, default=None)
    if widest is None or shape[widest] < 2 or not _adds(op):
        return
    other = _in_halves(op, {0: widest})
    kind = ir.RankedTensorType(op.operands[1].type)
    zero = _zero(kind.element_type)
    if zero is None:
        other.erase()
        return
    with ir.InsertionPoint(other):
        other.operands[1] = ir.Operation.create(
            "stablehlo.constant",
            results=[kind],
            attributes={"value": ir.DenseElementsAttr.get_splat(kind, zero)},
        ).results[0]
    _add(op, other)


def _zero(element: Any) -> Any:
    if isinstance(element, ir.IntegerType):
        return ir.IntegerAttr.get(element, 0)
    return None if isinstance(element, ir.ComplexType) else ir.FloatAttr.get(element, 0.0)


def _scatter(op: Any) -> None:
    """The updates of the second half go first."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    updates = _shape(op.operands[2]) if len(op.operands) == 3 else []
    windows = set(numbers.update_window_dims)
    scattered = [dim for dim in range(len(updates)) if dim not in windows]
    indices = [
        dim
        for dim in range(len(_shape(op.operands[1])))
        if dim != numbers.index_vector_dim
    ]  # fmt: skip
    pairs = [pair for pair in zip(scattered, indices, strict=False) if updates[pair[0]] > 1]
    if not pairs or list(numbers.input_batching_dims) or not _adds(op):
        return
    widest, index = max(pairs, key=lambda pair: updates[pair[0]])
    other = _in_halves(op, {1: index, 2: widest})
    op.operands[0] = other.results[0]


_SPLITTERS: dict[str, Callable[[Any], None]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot,
    "stablehlo.reduce": _reduce,
    "stablehlo.scatter": _scatter,
}
