"""The results of a module in the form `collectives` or `local`, device by device."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import functions_of
from toast.costmodel.network.mesh import Mesh
from toast.emit.lowering.devices import Devices
from toast.plans.plan import Plan, Spec
from toast.verify.reference.blocks import run_block
from toast.verify.reference.collectives import COLLECTIVES
from toast.verify.reference.cutting import assemble, cut
from toast.verify.reference.local import LocalMachine
from toast.verify.reference.single import Array, SingleOps
from toast.verify.reference.whole import WholeMachine

_KINDS = frozenset(name.partition(".")[2] for name in COLLECTIVES)


def run_reference(module: ir.Module, plan: Plan, inputs: list[Array]) -> list[Array]:
    """The results of a planned module, put together as the plan says they are laid out."""
    mesh = Mesh.parse(",".join(f"{axis.name}={axis.size}" for axis in plan.mesh.axes))
    return run_module(
        module,
        Devices(mesh),
        [tensor.spec for tensor in plan.arguments],
        [tensor.spec for tensor in plan.results],
        inputs,
    )


def run_module(
    module: ir.Module,
    devices: Devices,
    arguments: list[Spec],
    results: list[Spec],
    inputs: list[Array],
) -> list[Array]:
    """The results of a module for whole inputs; both are laid out in these ways."""
    held = [cut(value, spec, devices) for value, spec in zip(inputs, arguments, strict=True)]
    with module.context, ir.Location.unknown():
        found = _run(module, devices, arguments, held)
    return [
        assemble(parts, spec, _whole(parts[0], spec, devices), devices, f"result {number}")
        for number, (spec, parts) in enumerate(zip(results, found, strict=True))
    ]


def _whole(part: Array, spec: Spec, devices: Devices) -> list[int]:
    return [n * devices.parts(axes) for n, axes in zip(part.shape, spec, strict=True)]


def _run(
    module: ir.Module, devices: Devices, arguments: list[Spec], held: list[list[Array]]
) -> list[list[Array]]:
    block: Any = functions_of(module)["main"].regions[0].blocks[0]
    single = SingleOps()
    if not any(view.operation.name == "sdy.mesh" for view in module.body.operations):
        return run_block(LocalMachine(devices.count, single), block, held)
    machine = WholeMachine(devices, single)
    machine.layouts.update(zip(block.arguments, arguments, strict=True))
    return run_block(machine, block, held)


def collectives_in(module: ir.Module) -> dict[str, int]:
    """How many collectives of each kind a module has; one in a loop is one."""
    counts: dict[str, int] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect, _, kind = op.name.partition(".")
        if dialect in ("stablehlo", "sdy") and kind in _KINDS:
            counts[kind] = counts.get(kind, 0) + 1
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return counts
