"""Whole numbers that a program computes: counters of loops, and the places that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

_PASSED = frozenset({"stablehlo.convert", "stablehlo.reshape", "stablehlo.broadcast_in_dim"})
_BINARY: dict[str, Callable[[int, int], int]] = {
    "stablehlo.add": int.__add__,
    "stablehlo.subtract": int.__sub__,
    "stablehlo.multiply": int.__mul__,
    "stablehlo.minimum": min,
    "stablehlo.maximum": max,
}
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "LT": int.__lt__,
    "LE": int.__le__,
    "GT": int.__gt__,
    "GE": int.__ge__,
    "EQ": int.__eq__,
    "NE": int.__ne__,
}
_KNOWN = _PASSED | set(_BINARY) | {"stablehlo.compare", "stablehlo.select"}
_DEPTH = 32


def number(value: Any, given: Mapping[Any, int], depth: int = _DEPTH) -> int | None:
    """The whole number that a value is, where those `given` are so; None where nobody knows."""
    if value in given:
        return given[value]
    owner = value.owner
    if depth == 0 or not isinstance(owner, (ir.Operation, ir.OpView)):
        return None
    op = owner.operation
    if op.name == "stablehlo.constant":
        return _constant(op)
    if op.name not in _KNOWN:
        return None
    parts = [number(one, given, depth - 1) for one in op.operands]
    if op.name == "stablehlo.select":
        return None if parts[0] is None else parts[1 if parts[0] else 2]
    known = [part for part in parts if part is not None]
    return _computed(op, known) if len(known) == len(parts) else None


def _computed(op: ir.Operation, parts: Sequence[int]) -> int | None:
    if op.name in _PASSED:
        return parts[0]
    if op.name in _BINARY:
        return _BINARY[op.name](parts[0], parts[1])
    return _compared(op, parts[0], parts[1])


def _compared(op: ir.Operation, left: int, right: int) -> int | None:
    text = str(op.attributes["comparison_direction"])
    found = next((_COMPARED[name] for name in _COMPARED if f" {name}>" in text), None)
    return None if found is None else int(found(left, right))


def _constant(op: ir.Operation) -> int | None:
    try:
        attribute = op.attributes["value"]
    except TypeError:  # of a type that the bindings cannot read
        return None
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    splat = attribute.get_splat_value()
    return int(splat.value) if isinstance(splat, (ir.IntegerAttr, ir.BoolAttr)) else None
