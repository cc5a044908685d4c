"""How one op is computed on what each device holds.

Most ops are the same op on smaller tensors. Some need more: strips of neighbours, indices into the
device's own part, partial results that begin with nothing. What cannot be done over an axis is done
whole: that axis is taken off the op, whose operands are then gathered before it.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.emit.lowering import indexed, joins, reductions, windows
from toast.emit.lowering.code import Code, numbers
from toast.emit.lowering.placed import Placed

_WHOLE = frozenset(
    {
        "stablehlo.rng",
        "stablehlo.rng_bit_generator",
        "stablehlo.batch_norm_training",
        "stablehlo.batch_norm_inference",
        "stablehlo.batch_norm_grad",
    }
)
"""Ops that give something else on a part than a part of what they give."""


def undone(placed: Placed) -> set[str]:
    """The axes over which an op cannot be computed in parts."""
    if placed.name in _WHOLE:
        return placed.axes
    found = windows.unslidable(placed) | joins.unjoinable(placed)
    found |= indexed.unindexable(placed) | reductions.irreducible(placed)
    if placed.name == windows.CONVOLUTION and not _has_groups(placed.without(found)):
        found |= placed.axes
    return found


def is_plain(placed: Placed) -> bool:
    """Whether the op on the parts alone makes the parts of its results."""
    return not (
        windows.slides(placed)
        or joins.joined_dim(placed) >= 0
        or indexed.split_components(placed)
        or indexed.placed_dims(placed)
        or reductions.begins_otherwise(placed)
    )


def compute(code: Code, placed: Placed, operands: list[Any]) -> list[Any]:
    """The results of an op on what a device holds of its operands."""
    changes, hit = _changes(placed), None
    if joins.joined_dim(placed) >= 0:
        return joins.joined(code, placed, operands)
    if indexed.placed_dims(placed):
        return indexed.update(code, placed, operands)
    operands = reductions.begun_once(code, placed, operands)
    if windows.slides(placed):
        operands, more = windows.slid(code, placed, operands)
        changes |= more
    elif indexed.split_components(placed) and placed.name == indexed.GATHER:
        operands, hit = indexed.gather_operands(code, placed, operands)
    elif indexed.split_components(placed):
        place = (len(operands) - 1) // 2
        operands[place] = indexed.scatter_indices(code, placed, operands[place])
    results = clone(code, placed, operands, changes)
    if hit is not None:
        results = [code.select(hit, results[0], code.splat(code.shape(results[0]), results[0], 0))]
    return results


def clone(code: Code, placed: Placed, operands: list[Any], changes: dict[str, Any]) -> list[Any]:
    """A copy of the op on what a device holds, with these attributes changed."""
    copy = placed.handle.clone(ip=code.at).operation
    for index, operand in enumerate(operands):
        copy.operands[index] = operand
    for index, result in enumerate(copy.results):
        result.set_type(code.tensor(placed.local_result(index), result))
    for name, value in changes.items():
        copy.attributes[name] = value
    return list(copy.results)


def _changes(placed: Placed) -> dict[str, Any]:
    """Attributes that mention sizes, at the sizes of a device."""
    match placed.name:
        case "stablehlo.slice":
            local, limits = placed.local_operand(0), []
            ends = map(int, placed.handle.attributes["limit_indices"])
            for end, whole, part in zip(ends, placed.shapes[0], local, strict=True):
                limits.append(part if end == whole else end)
            return {"limit_indices": numbers(limits)}
        case indexed.DYNAMIC_SLICE:
            return {"slice_sizes": numbers(placed.local_result(0))}
        case indexed.GATHER:
            return {"slice_sizes": indexed.gather_sizes(placed)}
        case windows.CONVOLUTION:
            return _groups(placed) or {}
        case _:
            return {}


def _has_groups(placed: Placed) -> bool:
    return _groups(placed) is not None


def _groups(placed: Placed) -> dict[str, Any] | None:
    """Feature and batch groups that a device is left with; None where they do not come out even."""
    dims = stablehlo.ConvDimensionNumbers(placed.handle.attributes["dimension_numbers"])
    left, right = placed.local_operand(0), placed.local_operand(1)
    features, inner = left[dims.input_feature_dimension], right[dims.kernel_input_feature_dimension]
    outer = right[dims.kernel_output_feature_dimension]
    changed = {}
    feature_groups = placed.handle.attributes["feature_group_count"]
    if feature_groups.value > 1:
        count = features // inner
        if features % inner or outer % count:
            return None
        changed["feature_group_count"] = ir.IntegerAttr.get(feature_groups.type, count)
    elif features != inner:
        return None
    batch_groups = placed.handle.attributes["batch_group_count"]
    if batch_groups.value > 1:
        split = placed.shapes[1][dims.kernel_output_feature_dimension] // outer
        batch = left[dims.input_batch_dimension]
        if split > 1:
            whole = placed.shapes[0][dims.input_batch_dimension]
            if batch * split != whole or batch_groups.value % split:
                return None
            count = batch_groups.value // split
            changed["batch_group_count"] = ir.IntegerAttr.get(batch_groups.type, count)
    return changed
