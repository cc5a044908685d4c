"""Branches that are known before the program runs.

`jax.lax.platform_dependent` (which `jnp.diag` uses) lowers to a `case` that has one branch, and
`jax.lax.cond` over a flag of Python to a `case` whose index is a constant. XLA puts the branch in
the place of the op, and it neither stores nor computes the others. So do we, before we read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.operations import BEYOND_OPERANDS, operations_within

_CASE, _IF = "stablehlo.case", "stablehlo.if"
BRANCHING = frozenset({_CASE, _IF})
"""Ops that run one of their regions."""
CONTROL = BRANCHING | {"stablehlo.while"}
"""Ops whose regions are read as part of the program; those of other ops belong to the op."""

_DIALECTS = ("stablehlo.", "chlo.")
_KEPT = BEYOND_OPERANDS | {"stablehlo.custom_call", "stablehlo.while"}
"""Ops that stay though nothing reads them: they may do more, or never end."""


def take_chosen_branches(functions: Iterable[ir.Operation]) -> None:
    """Put the branch of every `case` and `if` whose choice is known in the place of the op.

    What the program computes for other branches only goes with them.
    """
    for function in functions:
        for block in function.regions[0].blocks:
            if _take(block):
                _erase_unread(block)


def _take(block: Any) -> bool:
    """Do so in a block; no op of a branch that goes is held, as it is erased with its op."""
    taken = False
    for op in [view.operation for view in block.operations if view.name in CONTROL]:
        chosen = _chosen(op) if op.name in BRANCHING else None
        for region in op.regions if chosen is None else [chosen]:
            taken |= _take(region.blocks[0])
        if chosen is not None:
            _replace(op, chosen.blocks[0])
            taken = True
    return taken


def _erase_unread(block: Any) -> None:
    """Erase the ops of a block, and of blocks within, that nothing reads."""
    for view in reversed(list(block.operations)):
        op = view.operation
        if op.results and not any(_is_read(result) for result in op.results) and _may_go(op):
            op.erase()
        elif op.name in CONTROL:
            for region in op.regions:
                _erase_unread(region.blocks[0])


def _is_read(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None


def _may_go(op: ir.Operation) -> bool:
    """Whether an op does no more than compute its results."""
    names = [op.name, *(inner.name for inner in operations_within(op))]
    return all(name.startswith(_DIALECTS) and name not in _KEPT for name in names)


def _chosen(op: ir.Operation) -> ir.Region | None:
    """The region that an op will run; None where only a run tells."""
    regions = list(op.regions)
    if len(regions) == 1:
        return regions[0]
    number = _number(op.operands[0])
    if number is None:
        return None
    if op.name == _IF:
        return regions[0 if number else 1]
    # An index out of range chooses the last branch.
    return regions[number] if 0 <= number < len(regions) else regions[-1]


def _number(value: ir.Value, depth: int = 4) -> int | None:
    """The integer that a scalar is, where it is made of constants only, at most `depth` deep."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.constant":
        kept = op.attributes["value"]
        return int(kept[0]) if isinstance(kept, ir.DenseIntElementsAttr) else None
    if depth == 0 or op.name not in ("stablehlo.convert", "stablehlo.clamp"):
        return None
    given = [_number(operand, depth - 1) for operand in op.operands]
    known = [number for number in given if number is not None]
    if len(known) < len(given):
        return None
    if op.name == "stablehlo.convert":
        return _converted(known[0], str(ir.RankedTensorType(value.type).element_type))
    least, number, most = known
    return min(max(number, least), most)


def _converted(number: int, kind: str) -> int | None:
    """A small integer in another type; a large one may be cut off there."""
    if kind == "i1":
        return int(number != 0)
    return number if -128 <= number < 128 else None


def _replace(op: ir.Operation, block: Any) -> None:
    """Move the ops of one of an op's blocks before the op, and erase it."""
    for view in list(block.operations):
        inner = view.operation
        if inner.name == "stablehlo.return":
            for result, value in zip(op.results, list(inner.operands), strict=True):
                result.replace_all_uses_with(value)
        else:
            inner.move_before(op)
    op.erase()
