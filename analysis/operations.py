"""What is asked of single ops: which run others, what is in them, and whether they only compute."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

BRANCHING = frozenset({"stablehlo.case", "stablehlo.if"})
"""Ops that run one of their regions."""
CONTROL = BRANCHING | {"stablehlo.while"}
"""Ops whose regions are read as part of the program; those of other ops belong to the op."""
_DIALECTS = ("stablehlo.", "sdy.", "chlo.")
_ONCE = frozenset(
    f"stablehlo.{name}"
    for name in ("rng", "infeed", "outfeed", "send", "recv", "create_token", "after_all")
)
"""Ops that do not make the same of the same operands, or do more than make something."""
_ENDS = frozenset({"func.return", "stablehlo.return"})


def operations_within(op: ir.Operation) -> list[ir.Operation]:
    """The ops in the regions of an op and in theirs, each before those that it has."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def may_run_twice(op: ir.Operation) -> bool:
    """Whether an op makes the same a second time and does nothing else."""
    return all(_is_pure(one) for one in (op, *operations_within(op)))


def _is_pure(op: ir.Operation) -> bool:
    if op.name in _ONCE or not op.name.startswith(_DIALECTS):
        return False
    if op.name == "stablehlo.custom_call" and "has_side_effect" in op.attributes:
        return not op.attributes["has_side_effect"].value
    return True


def put_in_place(op: ir.Operation, block: Any) -> list[ir.Operation]:
    """Move the ops of a block to where `op` is, which goes; returns those that were moved."""
    moved: list[ir.Operation] = []
    for view in list(block.operations):
        inner = view.operation
        if inner.name in _ENDS:
            for result, value in zip(op.results, list(inner.operands), strict=True):
                result.replace_all_uses_with(value)
        else:
            inner.move_before(op)
            moved.append(inner)
    op.erase()
    return moved
