"""What partial results are combined with, and what they must begin with to be so."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.emit.lowering.code import Code
from toast.emit.lowering.placed import Placed

ADD = "stablehlo.add"
_SUMMED = frozenset(
    f"stablehlo.{name}" for name in ("convolution", "dot", "dot_general", "einsum", "gather")
)
_REDUCING = frozenset({"stablehlo.reduce", "stablehlo.scatter"})
_ONCE = frozenset({"stablehlo.maximum", "stablehlo.minimum", "stablehlo.and", "stablehlo.or"})
"""Ops that take the same operand twice as once."""
_KNOWN = _ONCE | {ADD, "stablehlo.multiply", "stablehlo.xor"}


def combiner(placed: Placed) -> str | None:
    """The op that combines partial results; None where it is none that is known."""
    if placed.name in _SUMMED:
        return ADD
    return combining(placed.handle) if placed.name in _REDUCING else None


def combining(op: Any) -> str | None:
    """The one op of a reducer's body; None for a body that is none that is known."""
    block = op.regions[0].blocks[0]
    inner = [view.operation for view in block.operations]
    simple = len(inner) == 2 and set(inner[0].operands) == set(block.arguments)
    return inner[0].name if simple and inner[0].name in _KNOWN else None


def irreducible(placed: Placed) -> set[str]:
    """Axes over which the results cannot be combined."""
    if not placed.reduced:
        return set()
    body = combiner(placed)
    wide = body not in (None, ADD, *_ONCE) and _identity(body) is None
    return set(placed.reduced) if body is None or wide else set()


def begins_otherwise(placed: Placed) -> list[int]:
    """The operands that partial results begin with, and that count once."""
    body = combiner(placed)
    if not placed.reduced or placed.name not in _REDUCING or body in _ONCE:
        return []
    count = len(placed.operands)
    if placed.name == "stablehlo.reduce":
        initial = list(range(count // 2, count))
    else:
        initial = list(range((count - 1) // 2))
    return [n for n in initial if not _is_identity(placed, n, body)]


def begun_once(code: Code, placed: Placed, operands: list[Any]) -> list[Any]:
    """Operands that only the first device begins with; the others begin with nothing."""
    found, body = list(operands), combiner(placed)
    for n in begins_otherwise(placed):
        shape = code.shape(operands[n])
        nothing = code.splat(shape, operands[n], _identity(body) or 0)
        first = code.compare("EQ", code.coordinate(placed.reduced), code.scalar(0))
        found[n] = code.select(code.broadcast(first, shape), operands[n], nothing)
    return found


def _identity(body: str | None) -> int | None:
    """The number that leaves every other as it is."""
    if body in (ADD, "stablehlo.xor"):
        return 0
    return 1 if body == "stablehlo.multiply" else None


def _is_identity(placed: Placed, operand: int, body: str | None) -> bool:
    """Whether an operand is the constant that leaves every other as it is."""
    return is_full_of(placed.handle.operands[operand], _identity(body))


def is_full_of(value: Any, number: int | None) -> bool:
    """Whether a value is a constant that is this number everywhere."""
    while isinstance(value.owner, ir.Operation | ir.OpView):
        op = value.owner.operation
        if op.name == "stablehlo.constant":
            return _has(op.attributes["value"], number)
        if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.convert"):
            return False
        value = op.operands[0]
    return False


def _has(attribute: Any, number: int | None) -> bool:
    """Whether a constant is this number everywhere."""
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return False
    found = attribute.get_splat_value()
    return bool(np.asarray(getattr(found, "value", np.nan)) == number)
