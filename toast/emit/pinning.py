"""Constraints on values and on uses, where the MLIR of a program has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.constraint import constrained
from toast.emit.shardy import Shardings
from toast.plans.plan import Spec


def pin_value(value: Any, specs: Iterable[Spec], attributes: Shardings) -> None:
    """Have every use of a value read it behind constraints to these layouts, one by one."""
    users = [(use.owner, use.operand_number) for use in value.uses]
    owner = value.owner
    if isinstance(owner, ir.Block):
        at = ir.InsertionPoint.at_block_begin(owner)
    else:
        at = ir.InsertionPoint.after(owner.operation)
    pinned = _chain(value, specs, attributes, at)
    for user, number in users:
        user.operands[number] = pinned


def pin_uses(users: Iterable[tuple[Any, int]], specs: list[Spec], attributes: Shardings) -> None:
    """One chain of constraints per block, before the first of these operands there.

    The value may itself be pinned by now: a use is rewired from whatever it reads of it.
    """
    first: dict[Any, Any] = {}
    for user, number in users:
        block = user.block
        if block not in first:
            at = ir.InsertionPoint(user)
            first[block] = _chain(user.operands[number], specs, attributes, at)
        user.operands[number] = first[block]


def unpin(constraint: Any) -> None:
    """Remove a constraint."""
    constraint.results[0].replace_all_uses_with(constraint.operands[0])
    constraint.erase()


def _chain(value: Any, specs: Iterable[Spec], attributes: Shardings, at: ir.InsertionPoint) -> Any:
    for spec in specs:
        value = constrained(value, attributes.of(spec), at)
    return value
