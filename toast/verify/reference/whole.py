"""Runs a program on whole tensors with the collectives of Shardy, device by device.

What a device holds of a value follows from the shardings in the module, for every value has one.
"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.facts import SDY
from toast.emit.lowering.code import Code
from toast.emit.lowering.devices import Devices
from toast.emit.lowering.ops import compute
from toast.emit.lowering.placed import Placed
from toast.plans.plan import Spec
from toast.verify.reference.blocks import LOOP, WITH_BLOCKS, Held, run_block, run_blocks_of
from toast.verify.reference.collectives import combined
from toast.verify.reference.cutting import assemble, cut
from toast.verify.reference.local import LocalMachine, by_value
from toast.verify.reference.single import Array, SingleOps

_MOVES = frozenset({"all_gather", "all_slice", "all_to_all", "collective_permute"})
_IN_PARTS = frozenset({"stablehlo.constant", "stablehlo.iota"})
_ADD = "stablehlo.add"
_QUOTED = re.compile(r'"([^"]+)"')
"""The axes in an attribute that the bindings cannot read otherwise."""


class WholeMachine:
    """Runs blocks of ops on whole tensors; `layouts` has that of each MLIR value."""

    def __init__(self, devices: Devices, single: SingleOps) -> None:
        self.devices = devices
        self.held: Held = {}
        self.layouts: dict[Any, Spec] = {}
        self._single = single

    def _layout(self, op: Any) -> None:
        if "out_sharding" in op.attributes:
            self.layouts[op.results[0]] = spec_of(op.attributes["out_sharding"])
            return
        name = "out_shardings" if op.name == "sdy.manual_computation" else SDY
        if not list(op.results):
            return
        specs = [
            spec_of(one) for one in sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings
        ]
        self.layouts.update(zip(op.results, specs, strict=True))
        if op.name == LOOP:
            for region in op.regions:
                self.layouts.update(zip(region.blocks[0].arguments, specs, strict=True))

    def run(self, op: Any) -> list[list[Array]]:
        """What each device has of the results of an op."""
        self._layout(op)
        dialect, _, name = op.name.partition(".")
        if op.name == "sdy.manual_computation":
            local = LocalMachine(self.devices.count, self._single)
            return run_block(local, op.regions[0].blocks[0], [self.held[v] for v in op.operands])
        if dialect == "sdy":
            return [self._collective(op, name)]
        if op.name in WITH_BLOCKS:
            return run_blocks_of(self, op)
        if op.name in _IN_PARTS:
            return [self._made_in_parts(op)]
        return self._computed(op)

    def _collective(self, op: Any, name: str) -> list[Array]:
        operand, result = op.operands[0], op.results[0]
        held, here, there = self.held[operand], self.layouts[operand], self.layouts[result]
        if name in _MOVES:
            return self._moved(held, here, there, op)
        if name == "all_reduce":
            return self._summed(held, _QUOTED.findall(str(op.attributes["reduction_axes"])))
        assert name == "reduce_scatter", name
        pairs = zip(here, there, strict=True)
        axes = [axis for one, other in pairs for axis in other if axis not in one]
        return self._cut_further(self._summed(held, axes), here, there)

    def _moved(self, held: list[Array], here: Spec, there: Spec, op: Any) -> list[Array]:
        shape = list(ir.RankedTensorType(op.results[0].type).shape)
        return cut(assemble(held, here, shape, self.devices, op.name), there, self.devices)

    def _summed(self, held: list[Array], axes: list[str]) -> list[Array]:
        found = list(held)
        for group in self.devices.groups(axes):
            made = combined(_ADD, [held[device] for device in group])
            for device in group:
                found[device] = made
        return found

    def _cut_further(self, held: list[Array], here: Spec, there: Spec) -> list[Array]:
        """The parts of a sum: of what a device holds, which may be partial still."""
        more = [axes[len(one) :] for one, axes in zip(here, there, strict=True)]
        return [cut(part, more, self.devices)[device] for device, part in enumerate(held)]

    def _made_in_parts(self, op: Any) -> list[Array]:
        def write(block: Any, arguments: list[Any]) -> list[Any]:
            assert not arguments
            return _bare(op.clone(ip=ir.InsertionPoint(block)).operation)

        made = self._single.run([[]], [], write)[0][0]
        return cut(made, self.layouts[op.results[0]], self.devices)

    def _computed(self, op: Any) -> list[list[Array]]:
        operands = list(op.operands)
        given = [[self.held[value][n] for value in operands] for n in range(self.devices.count)]
        placed = Placed(
            handle=op,
            devices=self.devices,
            shapes=tuple(map(_shape, operands)),
            made=tuple(map(_shape, op.results)),
            operands=tuple(self.layouts[value] for value in operands),
            results=tuple(self.layouts[value] for value in op.results),
            reduced=_partial(op),
        )

        def write(block: Any, arguments: list[Any]) -> list[Any]:
            results = compute(Code(self.devices, block), placed, arguments)
            for result in results:
                _bare(result.owner)
            return results

        types = [
            ir.RankedTensorType.get(placed.local_operand(n), value.type.element_type)
            for n, value in enumerate(operands)
        ]
        return by_value(self._single.run(given, types, write), len(op.results))


def spec_of(sharding: Any) -> Spec:
    """The axes that a sharding puts on each dimension."""
    return [
        [sdy.AxisRefAttr(axis).name for axis in sdy.DimensionShardingAttr(dimension).axes]
        for dimension in sdy.TensorShardingAttr(sharding).dimension_shardings
    ]


def _partial(op: Any) -> tuple[str, ...]:
    """The axes over which the results of an op are partial, as it says itself."""
    for one in sdy.TensorShardingPerValueAttr(op.attributes[SDY]).shardings:
        axes = sdy.TensorShardingAttr(one).unreduced_axes
        return tuple(sdy.AxisRefAttr(axis).name for axis in axes)
    return ()


def _bare(op: Any) -> list[Any]:
    """The results of an op, which then says no layouts."""
    if SDY in op.attributes:
        del op.attributes[SDY]
    return list(op.results)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(value.type).shape)
