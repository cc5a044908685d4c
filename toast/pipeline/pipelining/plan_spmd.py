"""The whole job of a pipeline in one module: written, its loops priced, its layouts told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.forms import Form, Loaded, decode, encode
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.mesh import Mesh
from toast.emit.jax_export import encode_export
from toast.pipeline.pipelining.costs import link_seconds
from toast.pipeline.pipelining.priced import (
    ROLLOUTS,
    ModulePricer,
    layouts_of,
    local_bytes,
    pin,
)
from toast.pipeline.pipelining.search_degrees import memory_of
from toast.pipeline.plan_module import make_plan
from toast.plans.spmd_answer import SpmdAnswer, SpmdLoopFigures
from toast.request.pipeline_request import STAGES_AXIS, PipelineRequest
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels
from toast.spmd.layouts import Layout, LayoutPlanner, LayoutsBeside
from toast.spmd.rewrite import PipelinedLoop, SpmdPipeline, pipeline_module
from toast.spmd.stage_program import StageProgram

ANSWER = "answer.json"
Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSpmd:
    """The written module, in the form that the step had, and its figures."""

    module: bytes
    suffix: str
    answer: SpmdAnswer

    def write(self, folder: Path) -> None:
        """The module and the figures."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"sharded{self.suffix}").write_bytes(self.module)
        (folder / ANSWER).write_text(self.answer.model_dump_json(indent=2), encoding="utf-8")


def plan_spmd(module: bytes, request: PipelineRequest, report: Report) -> PlannedSpmd:
    """Put the scanned layers of a step on the stages of a mesh, and price what they do."""
    device = find(request.device)
    rest = f",{request.mesh}" if request.mesh else ""
    mesh = Mesh.parse(f"{STAGES_AXIS}={request.stages}{rest}")
    report("loading", 0.0)
    loaded = decode(module)
    warm_kernels(lambda share: report("compiling kernels", 0.1 + 0.1 * share))
    report("planning the step beside the stages", 0.2)
    planner = _planner(module, request, device)
    made = pipeline_module(loaded.module, mesh, STAGES_AXIS, request.count, planner)
    pricer = ModulePricer(request)
    loops, kept = [], list[tuple[Layout, ...]]()
    for number, one in enumerate(made.loops):
        report("pricing layers", 0.4 + 0.6 * number / len(made.loops))
        loop = replace(one, program=_continued(one.program, kept))
        with ir.Context():
            seconds, peak, results = pricer.take(loop.program.text, loop.program.arguments)
        kept.append(results)
        loops.append(_loop(loop, seconds, peak, made.batch_axes, request, device))
    return PlannedSpmd(
        module=_encoded(loaded, mesh, made),
        suffix=loaded.form.suffix,
        answer=_answer(loaded.module, made, loops, mesh, request),
    )


def _planner(module: bytes, request: PipelineRequest, device: Device) -> LayoutPlanner | None:
    """The search for layouts of the whole step on the mesh of one stage.

    A stage has its part of the layers, so the whole of them may take the memory of all stages.
    """
    mesh = request.mesh
    if mesh is None:
        return None

    def plan(pins: Mapping[int, Layout]) -> LayoutsBeside:
        asked = PlanRequest(
            mesh=mesh,
            device=request.device,
            memory=request.stages * memory_of(request, device),
            seed=request.seed,
            rollouts=request.rollouts or ROLLOUTS,
            pins=tuple(pin(*one) for one in pins.items()),
            advice=False,
        )
        found = make_plan(module, asked).plan
        return LayoutsBeside(
            arguments=layouts_of(found.arguments), results=layouts_of(found.results)
        )

    return plan


def _continued(program: StageProgram, kept: Sequence[Sequence[Layout]]) -> StageProgram:
    """A program that gets what the loops before it keep in the layouts that it has there."""
    arguments = tuple(
        kept[source[0]][source[1]] if source is not None and kept[source[0]] else layout
        for source, layout in zip(program.sources, program.arguments, strict=True)
    )
    return replace(program, arguments=arguments)


def _loop(
    loop: PipelinedLoop,
    seconds: float,
    peak: float,
    batch_axes: Sequence[str],
    request: PipelineRequest,
    device: Device,
) -> SpmdLoopFigures:
    """A stage works on one microbatch in each step, also in those of the bubble."""
    program = loop.program
    steps = request.count + request.stages - 1
    axes = _axes(request.mesh)
    sent = program.sent_bytes // math.prod(axes[axis] for axis in batch_axes)
    sending = steps * link_seconds(device, sent)
    own = _shared_bytes(program.text, loop, axes)
    return SpmdLoopFigures(
        name=loop.name,
        layers=loop.layers,
        stage_layers=loop.layers // request.stages,
        ascending=loop.ascending,
        seconds=seconds * steps / request.count + sending,
        sent_seconds=sending,
        sent_bytes=sent,
        peak_bytes=round(max(0.0, peak - own)),
    )


def _shared_bytes(text: str, loop: PipelinedLoop, axes: dict[str, int]) -> float:
    """What a loop reads of the step's own arguments, which are counted by themselves."""
    program = loop.program
    parsed = decode(text.encode()).module
    with parsed.context:
        main: Any = ir.SymbolTable(parsed.operation)["main"]
        layouts = [layout or () for layout in program.arguments]
        sizes = local_bytes(main.type.inputs, layouts, axes)
    return sum(sizes[place] for place in program.shared)


def _answer(
    module: ir.Module,
    made: SpmdPipeline,
    loops: Sequence[SpmdLoopFigures],
    mesh: Mesh,
    request: PipelineRequest,
) -> SpmdAnswer:
    with module.context:
        main: Any = ir.SymbolTable(module.operation)["main"]
        axes = {axis.name: axis.size for axis in mesh.axes}
        given = round(sum(local_bytes(main.type.inputs, made.arguments, axes)))
    peak = given + max(loop.peak_bytes for loop in loops)
    memory = memory_of(request, find(request.device))
    return SpmdAnswer(
        device=request.device,
        memory=memory,
        mesh=",".join(map(str, mesh.axes)),
        stages=request.stages,
        microbatches=request.count,
        batch_axes=made.batch_axes,
        arguments=_specs(made.arguments),
        results=_specs(made.results),
        loops=tuple(loops),
        idle=(request.stages - 1) / (request.count + request.stages - 1),
        argument_bytes=given,
        peak_bytes=peak,
        fits=peak <= memory,
        left_out=made.left_out,
    )


def _specs(layouts: Sequence[Sequence[Sequence[str]]]) -> tuple[list[list[str]], ...]:
    return tuple([list(axes) for axes in layout] for layout in layouts)


def _encoded(loaded: Loaded, mesh: Mesh, made: SpmdPipeline) -> bytes:
    """The module in the form that the step had."""
    if loaded.form is not Form.EXPORT:
        return encode(loaded.form, loaded.module, None)
    arguments, results = list(_specs(made.arguments)), list(_specs(made.results))
    return encode_export(loaded, loaded.module, mesh, arguments, results)


def _axes(mesh: str | None) -> dict[str, int]:
    return {} if mesh is None else {axis.name: axis.size for axis in Mesh.parse(mesh).axes}
