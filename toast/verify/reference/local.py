"""Runs the program of one device on all devices, in lock step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule
from toast.verify.reference.collectives import COLLECTIVES
from toast.verify.reference.single import Array, SingleOps

Held = dict[Any, list[Array]]
"""What each device holds of each MLIR value."""
ENDS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
LOOP, CASE, IF = "stablehlo.while", "stablehlo.case", "stablehlo.if"


class LocalMachine:
    """Runs blocks of device-local ops; `held` has what they use of outer blocks."""

    def __init__(self, devices: int, single: SingleOps) -> None:
        self.devices = devices
        self.held: Held = {}
        self._single = single

    def block(self, block: Any, arguments: Sequence[list[Array]]) -> list[list[Array]]:
        """What the last op of a block is given, for these arguments."""
        self.held.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            if op.name in ENDS:
                return [self.held[value] for value in op.operands]
            self.held.update(zip(op.results, self._run(op), strict=True))
        raise AssertionError("a block without an end")

    def _run(self, op: Any) -> list[list[Array]]:
        if op.name in COLLECTIVES:
            return [COLLECTIVES[op.name](op, self.held[op.operands[0]])]
        if op.name == "stablehlo.partition_id":
            return [[np.array(device, np.uint32) for device in range(self.devices)]]
        if op.name == LOOP:
            return loop(self, op)
        if op.name in (CASE, IF):
            return branch(self, op)
        return self._single_op(op)

    def _single_op(self, op: Any) -> list[list[Array]]:
        operands = list(op.operands)
        given = [[self.held[value][n] for value in operands] for n in range(self.devices)]

        def write(block: Any, arguments: list[Any]) -> list[Any]:
            copy = op.clone(ip=ir.InsertionPoint(block)).operation
            for index, argument in enumerate(arguments):
                copy.operands[index] = argument
            return list(copy.results)

        types = [value.type for value in operands]
        return by_value(self._single.run(given, types, write), len(op.results))


def by_value(by_device: list[list[Array]], count: int) -> list[list[Array]]:
    """What each device holds of each value, of what each device's values are."""
    return [[results[n] for results in by_device] for n in range(count)]


def loop(machine: Any, op: Any) -> list[list[Array]]:
    """The results of a loop, whose condition all devices have to agree on."""
    carried = [machine.held[value] for value in op.operands]
    condition, body = (region.blocks[0] for region in op.regions)
    while bool(agreed(machine.block(condition, carried)[0], op)):
        carried = machine.block(body, carried)
    return carried


def branch(machine: Any, op: Any) -> list[list[Array]]:
    """The results of the branch that all devices take."""
    index = agreed(machine.held[op.operands[0]], op)
    last = len(op.regions) - 1
    if op.name == IF:
        chosen = 0 if bool(index) else 1
    else:
        chosen = int(index) if 0 <= int(index) <= last else last
    found: list[list[Array]] = machine.block(op.regions[chosen].blocks[0], [])
    return found


def agreed(held: list[Array], op: Any) -> Any:
    """The scalar that all devices hold."""
    first = held[0][()]
    if any(array[()] != first for array in held):
        raise UnsupportedModule(
            f"The devices do not agree on which way a {op.name} goes.",
            "The module is no program that all devices run alike.",
        )
    return first
