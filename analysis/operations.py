"""All ops within an op."""

from __future__ import annotations

from jaxlib.mlir import ir


def operations_within(op: ir.Operation) -> list[ir.Operation]:
    """The ops in the regions of an op and in theirs, each before those that it has."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]
