"""Runs blocks op by op, with loops and branches, whatever the ops work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from toast.analysis.errors import UnsupportedModule
from toast.verify.reference.single import Array

Held = dict[Any, list[Array]]
"""What each device holds of each MLIR value."""
_ENDS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
LOOP, _CASE, _IF = "stablehlo.while", "stablehlo.case", "stablehlo.if"
WITH_BLOCKS = frozenset({LOOP, _CASE, _IF})


class Machine(Protocol):
    """What runs single ops; `held` has what they use."""

    held: Held

    def run(self, op: Any) -> list[list[Array]]:
        """The results of an op."""


def run_block(machine: Machine, block: Any, arguments: Sequence[list[Array]]) -> list[list[Array]]:
    """What the last op of a block is given, for these arguments."""
    machine.held.update(zip(block.arguments, arguments, strict=True))
    for view in block.operations:
        op = view.operation
        if op.name in _ENDS:
            return [machine.held[value] for value in op.operands]
        machine.held.update(zip(op.results, machine.run(op), strict=True))
    raise AssertionError("a block without an end")


def run_blocks_of(machine: Machine, op: Any) -> list[list[Array]]:
    """The results of a loop, or of a branch."""
    return _loop(machine, op) if op.name == LOOP else _branch(machine, op)


def _loop(machine: Machine, op: Any) -> list[list[Array]]:
    """The results of a loop, whose condition all devices have to agree on."""
    carried = [machine.held[value] for value in op.operands]
    condition, body = (region.blocks[0] for region in op.regions)
    while bool(_agreed(run_block(machine, condition, carried)[0], op)):
        carried = run_block(machine, body, carried)
    return carried


def _branch(machine: Machine, op: Any) -> list[list[Array]]:
    """The results of the branch that all devices take."""
    index = _agreed(machine.held[op.operands[0]], op)
    last = len(op.regions) - 1
    if op.name == _IF:
        chosen = 0 if bool(index) else 1
    else:
        chosen = int(index) if 0 <= int(index) <= last else last
    return run_block(machine, op.regions[chosen].blocks[0], [])


def _agreed(held: list[Array], op: Any) -> Any:
    """The scalar that all devices hold."""
    first = held[0][()]
    if any(array[()] != first for array in held):
        raise UnsupportedModule(
            f"The devices do not agree on which way a {op.name} goes.",
            "The module is no program that all devices run alike.",
        )
    return first
