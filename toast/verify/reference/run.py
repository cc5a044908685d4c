"""The results of a module in the form `collectives` or `local`, device by device."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import functions_of
from toast.analysis.forms import Loaded
from toast.costmodel.network.mesh import Mesh
from toast.emit.lowering.devices import Devices
from toast.plans.plan import Plan
from toast.verify.reference.collectives import COLLECTIVES
from toast.verify.reference.cutting import assemble, cut
from toast.verify.reference.local import LocalMachine
from toast.verify.reference.single import Array, SingleOps
from toast.verify.reference.whole import WholeMachine

_KINDS = frozenset(name.partition(".")[2] for name in COLLECTIVES)


def run_reference(loaded: Loaded, plan: Plan, inputs: list[Array]) -> list[Array]:
    """The results of a planned module, put together as the plan says they are laid out."""
    mesh = Mesh.parse(",".join(f"{axis.name}={axis.size}" for axis in plan.mesh.axes))
    devices = Devices(mesh)
    held = [
        cut(value, tensor.spec, devices)
        for value, tensor in zip(inputs, plan.arguments, strict=True)
    ]
    with loaded.module.context, ir.Location.unknown():
        results = _run(loaded.module, devices, plan, held)
    return [
        assemble(parts, tensor.spec, tensor.shape, devices, tensor.name or f"result {tensor.index}")
        for tensor, parts in zip(plan.results, results, strict=True)
    ]


def _run(
    module: ir.Module, devices: Devices, plan: Plan, held: list[list[Array]]
) -> list[list[Array]]:
    block: Any = functions_of(module)["main"].regions[0].blocks[0]
    single = SingleOps()
    if not any(view.operation.name == "sdy.mesh" for view in module.body.operations):
        return LocalMachine(devices.count, single).block(block, held)
    machine = WholeMachine(devices, single)
    for argument, tensor in zip(block.arguments, plan.arguments, strict=True):
        machine.layouts[argument] = tensor.spec
    return machine.block(block, held)


def collectives_in(loaded: Loaded) -> dict[str, int]:
    """How many collectives of each kind a module has; one in a loop is one."""
    counts: dict[str, int] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect, _, kind = op.name.partition(".")
        if dialect in ("stablehlo", "sdy") and kind in _KINDS:
            counts[kind] = counts.get(kind, 0) + 1
        return ir.WalkResult.ADVANCE

    with loaded.module.context:
        loaded.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return counts
