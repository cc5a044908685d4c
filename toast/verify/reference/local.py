"""Runs the program of one device on all devices, in lock step."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from toast.verify.reference.blocks import WITH_BLOCKS, Held, run_blocks_of
from toast.verify.reference.collectives import COLLECTIVES
from toast.verify.reference.single import Array, SingleOps


class LocalMachine:
    """Runs blocks of device-local ops; `held` has what they use of outer blocks."""

    def __init__(self, devices: int, single: SingleOps) -> None:
        self.devices = devices
        self.held: Held = {}
        self._single = single

    def run(self, op: Any) -> list[list[Array]]:
        """What each device has of the results of an op."""
        if op.name in COLLECTIVES:
            return [COLLECTIVES[op.name](op, self.held[op.operands[0]])]
        if op.name == "stablehlo.partition_id":
            return [[np.array(device, np.uint32) for device in range(self.devices)]]
        if op.name in WITH_BLOCKS:
            return run_blocks_of(self, op)
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
