"""Ops that do more than compute, and all ops within an op."""

from __future__ import annotations

from jaxlib.mlir import ir

_RANDOM = frozenset({"stablehlo.rng", "stablehlo.rng_bit_generator"})
_CROSS_DEVICE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "cross-replica-sum",
        "partition_id",
        "reduce_scatter",
        "replica_id",
    )
)
_EFFECTS = frozenset(
    f"stablehlo.{name}"
    for name in ("infeed", "outfeed", "send", "recv", "create_token", "after_all")
)
BEYOND_OPERANDS = _RANDOM | _CROSS_DEVICE | _EFFECTS | {"func.call"}
"""Ops whose results follow from more than their operands, or that do more than give results."""


def operations_within(op: ir.Operation) -> list[ir.Operation]:
    """The ops in the regions of an op and in theirs, each before those that it has."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]
