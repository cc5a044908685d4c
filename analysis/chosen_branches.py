"""Branches that are known before the program runs.

`jax.lax.platform_dependent` (which `jnp.diag` uses) lowers to a `case` that has one branch, and
`jax.lax.cond` over a flag of Python to a `case` whose index is a constant. XLA puts the branch in
the place of the op, and it neither stores nor computes the others. So do we, before we read.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import functions_of
from toast.analysis.dead_code import sweep
from toast.analysis.operations import BRANCHING, CONTROL, put_in_place


def take_chosen_branches(module: ir.Module) -> None:
    """Put the branch of every `case` and `if` whose choice is known in the place of the op.

    What nothing reads then goes too, as most of it was for other branches.
    """
    for function in functions_of(module).values():
        for block in function.regions[0].blocks:
            if _take(block):
                sweep(block)


def _take(block: Any) -> bool:
    """Do so in a block; no op of a branch that goes is held, as it is erased with its op."""
    taken = False
    for op in [view.operation for view in block.operations if view.name in CONTROL]:
        chosen = _chosen(op) if op.name in BRANCHING else None
        for region in op.regions if chosen is None else [chosen]:
            taken |= _take(region.blocks[0])
        if chosen is not None:
            put_in_place(op, chosen.blocks[0])
            taken = True
    return taken


def _chosen(op: ir.Operation) -> ir.Region | None:
    """The region that an op will run; None where only a run tells."""
    regions = list(op.regions)
    if len(regions) == 1:
        return regions[0]
    number = _number(op.operands[0])
    if number is None:
        return None
    if op.name == "stablehlo.if":
        return regions[0 if number else 1]
    # An index out of range chooses the last branch.
    return regions[number] if 0 <= number < len(regions) else regions[-1]


def _number(value: ir.Value) -> int | None:
    """The integer that a choice is, where it is a constant, a flag or one that is kept in range."""
    op = _maker(value)
    if op is None:
        return None
    if op.name == "stablehlo.convert" and str(op.operands[0].type) == "tensor<i1>":
        return _constant(op.operands[0])
    if op.name == "stablehlo.clamp":
        kept = [_constant(operand) for operand in op.operands]
        known = [number for number in kept if number is not None]
        return sorted(known)[1] if len(known) == len(kept) else None
    return _constant(value)


def _constant(value: ir.Value) -> int | None:
    op = _maker(value)
    if op is None or op.name != "stablehlo.constant":
        return None
    kept = op.attributes["value"]
    return int(kept[0]) if isinstance(kept, ir.DenseIntElementsAttr) else None


def _maker(value: ir.Value) -> ir.Operation | None:
    """The op that makes a value; None for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
