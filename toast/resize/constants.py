"""Constants at other sizes: the leading part of them, or them again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir


def can_resize(op: Any) -> bool:
    """Whether the constant of an op can be had in another size."""
    attribute = _value(op)
    return attribute is not None and (attribute.is_splat or _array(attribute) is not None)


def resize_constant(op: Any, shape: Sequence[int]) -> None:
    """Give the constant of an op another shape."""
    attribute = _value(op)
    assert attribute is not None, "nobody asks this of a constant that is kept"
    element = ir.RankedTensorType(attribute.type).element_type
    kind = ir.RankedTensorType.get(list(shape), element)
    if attribute.is_splat:
        op.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, attribute.get_splat_value())
        return
    array = _array(attribute)
    assert array is not None, "nobody asks this of a constant that is kept"
    places = [np.arange(size) % old for size, old in zip(shape, array.shape, strict=True)]
    made = np.ascontiguousarray(array[np.ix_(*places)])
    packed = np.packbits(made, bitorder="little") if made.dtype == np.bool_ else made
    op.attributes["value"] = ir.DenseElementsAttr.get(packed, type=element, shape=list(shape))


def _value(op: Any) -> Any:
    """The attribute of a constant; None for a type that the bindings cannot read."""
    try:
        attribute = op.attributes["value"]
    except TypeError:
        return None
    return attribute if isinstance(attribute, ir.DenseElementsAttr) else None


def _array(attribute: Any) -> np.ndarray[Any, Any] | None:
    try:
        return np.array(attribute)
    except (TypeError, ValueError, RuntimeError):
        return None
