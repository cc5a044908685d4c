"""Regions of `shard_map`: kept whole, between layouts that are theirs.

Such a region computes on shards, which the rest of the analysis knows nothing of. While a module is
planned a custom call stands in its place, with constraints on what goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.calls import calls_in, functions_of, inline
from toast.analysis.constraint import constrained
from toast.analysis.facts import meshes_of
from toast.analysis.program import StatedCollective
from toast.analysis.rules import REGION

MANUAL = "sdy.manual_computation"
_GROUPS, _PAIRS = "replica_groups", "source_target_pairs"
TARGET = REGION.removeprefix("custom_call ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualRegion:
    """A region and the mesh that it works on; `axes` are name and size."""

    op: ir.Operation
    axes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The regions of a module, which are kept in another, and what each does on one device."""

    holder: ir.Module | None = None
    regions: tuple[ManualRegion, ...] = ()
    local_modules: tuple[ir.Module, ...] = ()

    def of(self, op: ir.Operation) -> ManualRegion | None:
        """The region that a custom call stands for, if it stands for one."""
        number = _number(op)
        return None if number is None else self.regions[number]

    def restore(self, main: ir.Operation) -> None:
        """Put each region back where its custom call is."""
        if not self.regions:
            return
        found: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if _number(op) is not None:
                found.append(op)
            return ir.WalkResult.ADVANCE

        main.walk(visit, ir.WalkOrder.PRE_ORDER)
        for call in found:
            number = _number(call)
            assert number is not None
            copy: Any = self.regions[number].op.clone(ir.InsertionPoint(call))
            for index, operand in enumerate(call.operands):
                copy.operands[index] = operand
            for old, new in zip(call.results, copy.results, strict=True):
                old.replace_all_uses_with(new)
            call.erase()


def take_regions(module: ir.Module) -> Regions:
    """Take the regions out of a module."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name != MANUAL:
            return ir.WalkResult.ADVANCE
        found.append(op)
        return ir.WalkResult.SKIP

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if not found:
        return Regions()
    functions, meshes = functions_of(module), meshes_of(module)
    holder = ir.Module.create(ir.Location.unknown())
    regions, local_modules = [], []
    for number, op in enumerate(found):
        _inline_all(op, functions)
        _stand_in(op, number)
        _keep(op, holder, number)
        regions.append(ManualRegion(op=op, axes=_axes(op, meshes)))
        local_modules.append(_local_module(op, module))
    return Regions(holder=holder, regions=tuple(regions), local_modules=tuple(local_modules))


def stated_collectives(handles: Sequence[Any]) -> Iterator[StatedCollective]:
    """The collectives among the ops behind a program, in order."""
    for number, handle in enumerate(handles):
        if not isinstance(handle, ir.Operation):
            continue
        for name in (_GROUPS, _PAIRS):
            if name in handle.attributes:
                groups = np.array(ir.DenseIntElementsAttr(handle.attributes[name])).tolist()
                kept = tuple(tuple(one for one in group if one >= 0) for group in groups)
                yield StatedCollective(op=number, groups=kept, paired=name == _PAIRS)


def _number(op: ir.Operation) -> int | None:
    if op.name != "stablehlo.custom_call":
        return None
    target: str = ir.StringAttr(op.attributes["call_target_name"]).value
    return int(target.removeprefix(TARGET)) if target.startswith(TARGET) else None


def _inline_all(op: ir.Operation, functions: dict[str, ir.Operation]) -> None:
    """Inline every call in a region: it leaves the module that has the functions."""
    while calls := calls_in(op):
        for call, callee in calls:
            inline(call, functions[callee])


def _stand_in(op: ir.Operation, number: int) -> None:
    """Put a custom call in the place of a region, which loses its operands and uses."""
    with op.location:
        at = ir.InsertionPoint(op)
        operands = [
            _closed(operand, sharding, at)
            for operand, sharding in zip(op.operands, _shardings(op, "in_shardings"), strict=True)
        ]
        call = ir.Operation.create(
            "stablehlo.custom_call",
            results=[result.type for result in op.results],
            operands=operands,
            attributes={
                "call_target_name": ir.StringAttr.get(f"{TARGET}{number}"),
                "has_side_effect": ir.BoolAttr.get(False),
            },
            ip=at,
        )
        results = [
            _closed(result, sharding, at)
            for result, sharding in zip(call.results, _shardings(op, "out_shardings"), strict=True)
        ]
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)


def _keep(op: ir.Operation, holder: ir.Module, number: int) -> None:
    """Move a region to a function of its own in the module `holder`."""
    types = [operand.type for operand in op.operands]
    with ir.Location.unknown():
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(f"region_{number}"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            },
            regions=1,
            ip=ir.InsertionPoint(holder.body),
        )
        block = function.regions[0].blocks.append(*types)
        end = ir.Operation.create("func.return", ip=ir.InsertionPoint(block))
    for index, argument in enumerate(block.arguments):
        op.operands[index] = argument
    op.move_before(end)


def _local_module(op: ir.Operation, module: ir.Module) -> ir.Module:
    """What a region does on one device, as a module with the meshes of that which it is of."""
    copy: Any = op.clone()
    block = copy.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    types = [argument.type for argument in block.arguments]
    with ir.Location.unknown():
        found = ir.Module.create()
        for view in module.body.operations:
            if view.operation.name == "sdy.mesh":
                view.operation.clone(ir.InsertionPoint(found.body))
        results = [operand.type for operand in end.operands]
        main = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, results)),
            },
            regions=1,
            ip=ir.InsertionPoint(found.body),
        )
        entry = main.regions[0].blocks.append(*types)
        for old, new in zip(block.arguments, entry.arguments, strict=True):
            old.replace_all_uses_with(new)
        last = ir.Operation.create(
            "func.return", operands=list(end.operands), ip=ir.InsertionPoint(entry)
        )
    for view in list(block.operations)[:-1]:
        view.operation.move_before(last)
    copy.erase()
    return found


def _shardings(op: ir.Operation, name: str) -> list[Any]:
    return list(sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings)


def _closed(value: Any, sharding: Any, at: ir.InsertionPoint) -> Any:
    """A value under the sharding of a region, which may leave no dimension open here."""
    tensor = sdy.TensorShardingAttr(sharding)
    dims = [
        sdy.DimensionShardingAttr.get(list(sdy.DimensionShardingAttr(dim).axes), is_closed=True)
        for dim in tensor.dimension_shardings
    ]
    return constrained(value, sdy.TensorShardingAttr.get(tensor.mesh_or_ref, dims), at)


def _axes(op: ir.Operation, meshes: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """The axes of the mesh that a region names; none where it names none."""
    for sharding in [*_shardings(op, "in_shardings"), *_shardings(op, "out_shardings")]:
        mesh = sdy.TensorShardingAttr(sharding).mesh_or_ref
        if isinstance(mesh, ir.FlatSymbolRefAttr):
            mesh = meshes[ir.FlatSymbolRefAttr(mesh).value]
        axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)
        return tuple((axis.name, axis.size) for axis in axes)
    return ()
