"""A step whose scanned layers run as a pipeline, in one module for the whole mesh.

Every loop over layers goes into an `sdy.manual_computation` that is manual over the axis of the
stages alone. Each device of that axis holds its layers of every stack. What is outside the loops
stays as it is, on the whole batch. MLIR may end the process over a module, so call this in one that
may die.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from toast.analysis import rules
from toast.analysis.calls import resolve_calls
from toast.analysis.errors import InvalidRequest
from toast.costmodel.network.mesh import Mesh
from toast.emit.shardy import MESH, add_mesh
from toast.emit.writer import tell_devices
from toast.microbatch.time_axis import TimeAxis
from toast.microbatch.tree import WHILE
from toast.recompute.captured import sink_constants
from toast.recompute.loops import Loop
from toast.recompute.names import flatten_with_names, line_of
from toast.spmd.batch import ProvenStage, prove
from toast.spmd.layouts import Layout, LayoutPlanner, PipelineLayouts
from toast.spmd.scanned import StageLayers, scanned_layers
from toast.spmd.stage_program import StageProgram, stage_program
from toast.spmd.writer import PipeAxis, StageWriter

_NO_LAYERS = "No layers of this program are scanned over stacked weights."
_UNROLLED = "Leave out --form spmd: layers that stand one after another are cut into stages."


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinedLoop:
    """A loop that runs on the stages: how many layers it has, in which order, and its batch."""

    name: str
    layers: int
    ascending: bool
    batch: int
    program: StageProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class SpmdPipeline:
    """What was written: the loops, the layouts of arguments and results, the axes of the batch.

    `left_out` says of each loop over stacks that stays whole on every stage why it does.
    """

    loops: tuple[PipelinedLoop, ...]
    left_out: tuple[str, ...]
    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]
    batch_axes: tuple[str, ...]


def pipeline_module(
    module: ir.Module,
    mesh: Mesh,
    stages: str,
    count: int,
    planner: LayoutPlanner | None = None,
) -> SpmdPipeline:
    """Let the scanned layers of a module run in so many microbatches over the axis `stages`.

    The `planner` finds the layouts on the other axes; without one these share the batch.

    Raises:
        InvalidRequest: no layers are scanned, or an op is in the way; the message names it.
    """
    axis = PipeAxis(name=stages, axes=tuple((one.name, one.size) for one in mesh.axes))
    with module.context, ir.Location.unknown():
        if any(view.operation.name == "sdy.mesh" for view in module.body.operations):
            raise InvalidRequest(
                "The module has shardings of its own.", "Lower the step without a mesh."
            )
        sink_constants(module)
        main = flatten_with_names(resolve_calls(module))
        named = TimeAxis(module)
        rules.drop(module)
        proven, left_out = _proven(main, axis.stages, count)
        layouts = PipelineLayouts(main, named, axis, proven, count, planner)
        loops = tuple(
            _described(one, stage_program(one, layouts.in_stage(one), proven[:number], count))
            for number, one in enumerate(proven)
        )
        add_mesh(module, mesh)
        for one in proven:
            _Region(one, axis, count).write()
        layouts.annotate()
        tell_devices(module, mesh)
        rules.drop(module)
        module.operation.verify()
    return SpmdPipeline(
        loops=loops,
        left_out=left_out,
        arguments=layouts.arguments,
        results=layouts.results,
        batch_axes=layouts.batch_axes,
    )


def _described(proven: ProvenStage, program: StageProgram) -> PipelinedLoop:
    layers = proven.stage.layers
    return PipelinedLoop(
        name=line_of(layers.loop.op.location),
        layers=layers.turns,
        ascending=layers.ascending,
        batch=proven.cut.size,
        program=program,
    )


def _proven(
    main: ir.Operation, stages: int, count: int
) -> tuple[list[ProvenStage], tuple[str, ...]]:
    """The loops over layers, and why other loops are none.

    A refused one that may be of the same layers is in the way of all.
    """
    block = main.regions[0].blocks[0]
    found: list[ProvenStage] = []
    refused: list[tuple[int, InvalidRequest]] = []
    for op in [view.operation for view in block.operations if view.operation.name == WHILE]:
        turns = Loop(op).turns
        try:
            layers = scanned_layers(op)
            one = None if layers is None else prove(StageLayers(layers, stages), count)
        except InvalidRequest as error:
            refused.append((turns, error))
            continue
        if one is not None and one.has_weights:
            found.append(one)
    for turns, refusal in refused:
        if not found or turns in {one.stage.layers.turns for one in found}:
            raise refusal
    if not found:
        raise InvalidRequest(_NO_LAYERS, _UNROLLED)
    return found, tuple(error.message for _, error in refused)


class _Region:
    """Puts one loop into a computation that is manual over the axis of the stages."""

    def __init__(self, proven: ProvenStage, axis: PipeAxis, count: int) -> None:
        self._proven = proven
        self._layers = proven.stage.layers
        self._op = self._layers.loop.op
        self._axis = axis
        self._count = count

    def write(self) -> None:
        """Write the region before the loop, and let it take the loop's place."""
        op, layers, stage = self._op, self._layers, self._proven.stage
        with ir.InsertionPoint(op), op.location:
            ranks = list(range(self._axis.stages))
            text = str(ranks if layers.ascending else ranks[::-1])
            kind = f"tensor<{len(ranks)}xi32>"
            rank = hlo.constant(ir.DenseElementsAttr(ir.Attribute.parse(f"dense<{text}> : {kind}")))
            operands = [*(op.operands[slot] for slot in stage.slots), rank]
            shared = [slot in layers.stacked for slot in stage.slots] + [True]
            made = [op.results[slot] for slot in layers.made]
            region = ir.Operation.create(
                "sdy.manual_computation",
                results=[value.type for value in made],
                operands=operands,
                attributes={
                    "in_shardings": self._shardings(operands, shared),
                    "out_shardings": self._shardings(
                        made, [slot in layers.stacked for slot in layers.made]
                    ),
                    "manual_axes": ir.Attribute.parse(f'#sdy<manual_axes{{"{self._axis.name}"}}>'),
                },
                regions=1,
            )
        small = ir.RankedTensorType.get([1], ir.IntegerType.get_signless(32))
        types = [*stage.argument_types(), small]
        locations = [op.location] * len(types)
        block = region.regions[0].blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(block), op.location:
            results = self._stage(list(block.arguments))
            ir.Operation.create("sdy.return", operands=results)
        self._replace(list(region.results))

    def _stage(self, given: list[Any]) -> list[Any]:
        stage = self._proven.stage
        scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        rank = hlo.reshape(scalar, given.pop())
        if stage.counts_layers:
            each = ir.IntegerAttr.get(scalar.element_type, stage.count)
            layers = hlo.constant(ir.DenseElementsAttr.get_splat(scalar, each))
            first = hlo.multiply(rank, layers)
            wanted = self._proven.axis.block.arguments[-1].type
            given.append(first if first.type == wanted else hlo.convert(wanted, first))
        writer = StageWriter(
            self._proven.axis.block,
            self._proven.cut,
            self._count,
            self._axis,
            self._layers.carried,
            rising=self._layers.ascending,
        )
        return writer.write_stage(given, rank)

    def _replace(self, results: Sequence[Any]) -> None:
        """Let what read the loop read the region; what no turn changes is what the loop got."""
        op, layers = self._op, self._layers
        made = dict(zip(layers.made, results, strict=True))
        for slot, result in enumerate(op.results):
            if slot not in layers.counters:
                result.replace_all_uses_with(made.get(slot, op.operands[slot]))
            elif list(result.uses):
                with ir.InsertionPoint(op):
                    turns = ir.IntegerAttr.get(
                        ir.RankedTensorType(result.type).element_type, layers.turns
                    )
                    last = hlo.constant(ir.DenseElementsAttr.get_splat(result.type, turns))
                result.replace_all_uses_with(last)
        op.erase()

    def _shardings(self, values: Sequence[Any], shared: Sequence[bool]) -> Any:
        """Dimension 0 of what is shared over the stages; all else is open."""
        found = []
        for value, own in zip(values, shared, strict=True):
            dims = ["{?}"] * ir.RankedTensorType(value.type).rank
            if own:
                dims[0] = f'{{"{self._axis.name}", ?}}'
            found.append(f"<@{MESH}, [{', '.join(dims)}]>")
        return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(found)}]>")
