"""Writes the forms *collectives* and *local* as modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.facts import keys
from toast.analysis.load import Source
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.lowering.code import Code
from toast.emit.lowering.devices import Devices
from toast.emit.lowering.program import Lowering, Sent
from toast.emit.lowering.target import GlobalTarget, LocalTarget
from toast.emit.shardy import Shardings, add_mesh
from toast.emit.specs import Specs
from toast.emit.writer import annotate_function, tell_devices
from toast.plans.plan import Spec

_MANUAL = "mhlo.sharding"
_ALIAS = "tf.aliasing_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A lowered module, its collectives, and what is computed over fewer axes than planned."""

    module: ir.Module
    sent: list[Sent]
    undone: Counter[str]

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know of it."""
        return tuple(
            f"{count} {name} could not be computed in parts as planned: their operands are "
            "gathered before, and their results cut."
            for name, count in sorted(self.undone.items())
        )


def lower_to_collectives(
    source: Source, mesh: Mesh, resolved: ResolvedPlan, specs: Specs
) -> Lowered:
    """The program on whole tensors, with every collective of the plan as an op of Shardy."""
    arguments, results = _layouts(source, specs)
    with source.main.context, ir.Location.unknown():
        module, main, block = _function(source, [list(a.type.shape) for a in _inputs(source)], None)
        attributes = Shardings()
        code = Code(Devices(mesh), block)
        lowering = Lowering(source, resolved, specs, GlobalTarget(code, attributes))
        code.op("func.return", lowering.write(list(block.arguments)), [])
        annotate_function(main, "arg_attrs", arguments, attributes)
        annotate_function(main, "res_attrs", results, attributes)
        add_mesh(module, mesh)
        tell_devices(module, mesh)
        source.regions.restore(main)
        module.operation.verify()
    return Lowered(module=module, sent=lowering.sent, undone=lowering.undone)


def lower_to_local(source: Source, mesh: Mesh, resolved: ResolvedPlan, specs: Specs) -> Lowered:
    """The program of one device: what it holds of each tensor, and collectives of StableHLO."""
    devices = Devices(mesh)
    arguments, results = _layouts(source, specs)
    with source.main.context, ir.Location.unknown():
        shapes = [
            list(devices.local(value.type.shape, spec))
            for value, spec in zip(_inputs(source), arguments, strict=True)
        ]
        outputs = [
            list(devices.local(kind.shape, spec))
            for kind, spec in zip(_outputs(source), results, strict=True)
        ]
        module, main, block = _function(source, shapes, outputs)
        code = Code(devices, block)
        lowering = Lowering(source, resolved, specs, LocalTarget(code))
        code.op("func.return", lowering.write(list(block.arguments)), [])
        _mark(main, "arg_attrs", shapes, outputs)
        _mark(main, "res_attrs", outputs, outputs)
        tell_devices(module, mesh)
        module.operation.verify()
    return Lowered(module=module, sent=lowering.sent, undone=lowering.undone)


def lower_to_region(source: Source, mesh: Mesh, resolved: ResolvedPlan, specs: Specs) -> Lowered:
    """The program of one device as the body of a `main` on whole tensors, as `shard_map` makes it.

    That is how a `jax.export` artifact can hold it, whose arguments are whole.
    """
    arguments, results = _layouts(source, specs)
    with source.main.context, ir.Location.unknown():
        module, main, block = _function(source, [list(a.type.shape) for a in _inputs(source)], None)
        attributes = Shardings()
        code = Code(Devices(mesh), block)
        found: list[Lowering] = []

        def build(inner: Code, operands: list[Any]) -> list[Any]:
            found.append(Lowering(source, resolved, specs, LocalTarget(inner)))
            return found[0].write(operands)

        made = GlobalTarget(code, attributes).island(
            list(block.arguments),
            [(spec, ()) for spec in arguments],
            _outputs(source),
            [(spec, ()) for spec in results],
            build,
        )
        code.op("func.return", made, [])
        annotate_function(main, "arg_attrs", arguments, attributes)
        annotate_function(main, "res_attrs", results, attributes)
        add_mesh(module, mesh)
        tell_devices(module, mesh)
        module.operation.verify()
    return Lowered(module=module, sent=found[0].sent, undone=found[0].undone)


def _layouts(source: Source, specs: Specs) -> tuple[list[Spec], list[Spec]]:
    program = source.program
    arguments = [specs.value(argument.value) for argument in program.arguments]
    return arguments, [specs.use(result.use) for result in program.results]


def _inputs(source: Source) -> list[Any]:
    return list(source.main.regions[0].blocks[0].arguments)


def _outputs(source: Source) -> list[Any]:
    kind = ir.FunctionType(ir.TypeAttr(source.main.attributes["function_type"]).value)
    return list(kind.results)


def _function(
    source: Source, shapes: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]] | None
) -> tuple[ir.Module, ir.Operation, Any]:
    """A module with an empty `main` of these shapes, named as that of the source."""
    old = source.loaded.module.operation
    module = ir.Module.create()
    for name in keys(old.attributes):
        module.operation.attributes[name] = old.attributes[name]
    given, kinds = _inputs(source), _outputs(source)
    inputs = [_sized(value.type, shape) for value, shape in zip(given, shapes, strict=True)]
    made = kinds
    if outputs is not None:
        made = [_sized(kind, shape) for kind, shape in zip(kinds, outputs, strict=True)]
    attributes = {name: source.main.attributes[name] for name in keys(source.main.attributes)}
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, made))
    main = ir.Operation.create(
        "func.func",
        attributes=attributes,
        regions=1,
        ip=ir.InsertionPoint(module.body),
        loc=source.main.location,
    )
    locations = [value.location for value in given]
    return module, main, main.regions[0].blocks.append(*inputs, arg_locs=locations)


def _sized(kind: Any, shape: Sequence[int]) -> Any:
    return ir.RankedTensorType.get(list(shape), ir.RankedTensorType(kind).element_type)


def _mark(
    main: ir.Operation,
    name: str,
    shapes: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> None:
    """Say of arguments or results that they are what one device holds.

    A donated argument stays so where the result that takes its place is as large on a device.
    """
    rows: list[Any] = [{} for _ in shapes]
    if name in main.attributes:
        rows = list(ir.ArrayAttr(main.attributes[name]))
    made = []
    for row, shape in zip(rows, shapes, strict=True):
        pairs = {key: row[key] for key in keys(row)}
        if _ALIAS in pairs and outputs[ir.IntegerAttr(pairs[_ALIAS]).value] != shape:
            del pairs[_ALIAS]
        made.append(ir.DictAttr.get(pairs | {_MANUAL: ir.StringAttr.get("{manual}")}))
    main.attributes[name] = ir.ArrayAttr.get(made)
