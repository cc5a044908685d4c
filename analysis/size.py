"""Counts how large a module is before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import callee_of, functions_of
from toast.analysis.errors import ModuleTooLarge
from toast.analysis.limits import ModuleLimits

_CONSTANTS = frozenset({"stablehlo.constant", "sdy.constant", "chlo.constant"})
_ONE_COMPLEX = "dense<("
"""How a complex number begins in text that is repeated; several begin with a bracket."""
_FEW = 16
"""Of more elements the text is left out."""
_WIDTHS = {"complex<f32>": 64, "complex<f64>": 128}
"""Bits of element types of which MLIR's Python has no width."""


def check_size(module: ir.Module, limits: ModuleLimits) -> None:
    """Raise `ModuleTooLarge` for a module above a limit. It need not be one that can be read.

    Ops are counted by function, so that calls that call twice what calls twice cost nothing.
    """
    functions = functions_of(module)
    main = functions.get("main")
    if main is None:
        return  # refused in its own words, later
    blocks = list(main.regions[0].blocks)
    _compare("arguments", len(blocks[0].arguments) if blocks else 0, limits.arguments)
    bodies = {name: _FunctionSize.of(function) for name, function in functions.items()}
    _compare("ops once its calls are inlined", _inlined(bodies), limits.ops)
    constants = sum(body.constant_bytes for body in bodies.values())
    _compare("bytes of constants", constants, limits.constant_bytes)


def _compare(what: str, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        shown = f"{count:,}" if count < 10**15 else "more than a quadrillion"
        raise ModuleTooLarge(
            f"The module has {shown} {what}, where the limit is {limit:,}.",
            "Stack what repeats into one argument or loop, pass large constants as arguments, or "
            "ask the operator for a higher limit.",
        )


@dataclass(frozen=True, slots=True)
class _FunctionSize:
    ops: int
    calls: Sequence[str]
    constant_bytes: int

    @classmethod
    def of(cls, function: ir.Operation) -> _FunctionSize:
        ops, size = 0, 0
        calls: list[str] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            nonlocal ops, size
            ops += 1
            name = op.name
            if name in _CONSTANTS:
                size += _constant_bytes(op)
            elif (callee := callee_of(op)) is not None:
                calls.append(callee)
            return ir.WalkResult.ADVANCE

        function.walk(visit, ir.WalkOrder.PRE_ORDER)
        return cls(ops, calls, size)


def is_literal(op: ir.Operation) -> bool:
    """Whether an op is a constant of more than one number repeated."""
    if op.name not in _CONSTANTS:
        return False
    try:
        value: Any = op.attributes["value"]
    except TypeError:  # complex numbers have no form in Python
        return _ONE_COMPLEX not in op.get_asm(large_elements_limit=_FEW)
    return not (isinstance(value, ir.DenseElementsAttr) and value.is_splat)


def _constant_bytes(op: ir.Operation) -> int:
    """The bytes that the module holds for a constant; one number repeated is nothing."""
    if not is_literal(op):
        return 0
    kind = ir.ShapedType(op.results[0].type)
    width = getattr(kind.element_type, "width", _WIDTHS.get(str(kind.element_type), 8))
    return math.prod(kind.shape) * int(width) // 8


def _inlined(bodies: dict[str, _FunctionSize]) -> int:
    """The ops of `main` with all calls inlined; a call within itself counts as none."""
    total: dict[str, int] = {}
    open_: dict[str, None] = {}
    stack = ["main"]
    while stack:
        name = stack[-1]
        body = bodies[name]
        if name in open_:
            stack.pop()
            del open_[name]
            total[name] = body.ops + sum(total.get(callee, 0) for callee in body.calls)
        elif name in total:
            stack.pop()
        else:
            open_[name] = None
            stack += [
                callee
                for callee in dict.fromkeys(body.calls)
                if callee in bodies and callee not in total and callee not in open_
            ]
    return total["main"]
