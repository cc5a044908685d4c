"""The whole job: a module and a request in, the modules of a pipeline and its schedule out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.mesh import Mesh
from toast.page.rendering import render_template
from toast.pipeline.pipelining.balance import balanced_cuts
from toast.pipeline.pipelining.costs import PricedPipeline, simulate_on
from toast.pipeline.pipelining.degrees import Degrees
from toast.pipeline.pipelining.priced import ModulePricer
from toast.pipeline.pipelining.search_degrees import degree_figures, memory_of, search_degrees
from toast.plans.pipeline_answer import PipelineAnswer, ScheduleFigures, StageFigures
from toast.request.pipeline_request import AUTO, PipelineRequest
from toast.schedules.orders import GPIPE, INTERLEAVED, ONE_F_ONE_B, make_schedule
from toast.schedules.timeline import PipelineTimeline
from toast.schedules.trace import chrome_trace, timeline_plot
from toast.search.kernel_cache import warm_kernels
from toast.stages.cut import CutProgram, Cutting, cut_program
from toast.stages.files import write_pipeline
from toast.stages.wiring import Layout

TRACE, PAGE, ANSWER = "trace.json", "timeline.html", "answer.json"
Report = Callable[[str, float], None]
"""Told which stage of the job begins, and the part of the job that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPipeline:
    """A priced pipeline with the timelines of the schedules that were compared, the best first."""

    priced: PricedPipeline
    timelines: tuple[PipelineTimeline, ...]
    answer: PipelineAnswer

    def write(self, folder: Path) -> None:
        """The modules, the wiring, the schedule, the trace, the page and the figures."""
        best = self.timelines[0]
        texts = [one.text for one in self.priced.modules]
        write_pipeline(folder, self.priced.program, texts, best.schedule)
        (folder / TRACE).write_text(chrome_trace(best), encoding="utf-8")
        (folder / PAGE).write_text(self.page(), encoding="utf-8")
        (folder / ANSWER).write_text(self.answer.model_dump_json(indent=2), encoding="utf-8")

    def page(self) -> str:
        """The timeline drawn, with the figures of the stages, as one HTML page."""
        return render_template(
            "toast.pipeline.pipelining",
            "timeline.html",
            answer=self.answer,
            drawing=timeline_plot(self.timelines[0]),
        )


def plan_pipeline(
    module: bytes,
    request: PipelineRequest,
    report: Report,
    layouts: Mapping[str, Layout] | None = None,
) -> PlannedPipeline:
    """Cut a step, plan its stages, and choose the schedule that takes the least time and fits.

    `layouts` are those that values must have, by the names of the wiring: `argument:3`.
    """
    device = find(request.device)
    warm_kernels(lambda share: report("compiling kernels", 0.1 * share))
    report("loading", 0.1)
    names = [argument.name for argument in load(module).program.arguments]
    tried: list[Degrees] = []
    if request.devices is not None or request.microbatches == AUTO:
        request, tried = search_degrees(module, names, request, device, report)
    cuts = request.cuts
    if cuts is None and request.stages * request.chunks > 1:
        report("balancing layers", 0.15)
        cuts = balanced_cuts(module, names, request)
    report("cutting", 0.3)
    cut = _cut(module, names, request, cuts)
    priced, planned = _priced(cut, request, report, layouts or {})
    timelines = _timelines(priced, request, device)
    return PlannedPipeline(
        priced=priced,
        timelines=timelines,
        answer=_answer(priced, timelines, request, device, planned).model_copy(
            update={"tried": degree_figures(tried, memory_of(request, device))}
        ),
    )


def _cut(
    module: bytes, names: Sequence[str], request: PipelineRequest, cuts: tuple[int, ...] | None
) -> CutProgram:
    cutting = Cutting(
        stages=request.stages,
        chunks=request.chunks,
        microbatches=request.count,
        cuts=cuts,
    )
    return cut_program(decode(module).module, names, cutting)


def _priced(
    cut: CutProgram, request: PipelineRequest, report: Report, layouts: Mapping[str, Layout]
) -> tuple[PricedPipeline, int]:
    pricer, program = ModulePricer(request, dict(layouts)), cut.program
    with cut.modules[0].context:
        made = []
        for number, (wiring, module) in enumerate(zip(program.modules, cut.modules, strict=True)):
            report(f"planning {wiring.name}", 0.35 + 0.6 * number / len(cut.modules))
            made.append(pricer.price(wiring, module))
    axes = () if request.mesh is None else Mesh.parse(request.mesh).axes
    wired = replace(
        program,
        modules=tuple(one.wiring for one in made),
        mesh=tuple((axis.name, axis.size) for axis in axes),
    )
    return PricedPipeline(program=wired, modules=tuple(made)), pricer.planned


def _timelines(
    priced: PricedPipeline, request: PipelineRequest, device: Device
) -> tuple[PipelineTimeline, ...]:
    """The simulated schedules: those that fit before others, then by time, then by memory."""
    program, memory = priced.program, memory_of(request, device)
    several = request.chunks > 1
    possible = [INTERLEAVED] if several else [ONE_F_ONE_B, GPIPE]
    if request.schedule != "auto" and request.schedule not in possible:
        raise InvalidRequest(
            f"The schedule {request.schedule} does not go with {request.chunks} chunks.",
            f"Use {' or '.join(possible)}.",
        )
    names = possible if request.schedule == "auto" else [request.schedule]
    costs, each = priced.chunk_costs(), program.stage_devices
    schedules = [
        make_schedule(
            name,
            program.stages,
            program.microbatches,
            chunks=program.chunks,
            training=program.training,
        )
        for name in names
    ]
    found = [simulate_on(device, schedule, costs, each) for schedule in schedules]
    return tuple(
        sorted(found, key=lambda one: (_fullest(one) > memory, one.seconds, _fullest(one)))
    )


def _fullest(timeline: PipelineTimeline) -> float:
    return max(timeline.peak_bytes(stage) for stage in range(timeline.schedule.stages))


def _answer(
    priced: PricedPipeline,
    timelines: Sequence[PipelineTimeline],
    request: PipelineRequest,
    device: Device,
    planned: int,
) -> PipelineAnswer:
    memory = memory_of(request, device)
    schedules = [
        ScheduleFigures(
            name=one.schedule.name,
            step_seconds=one.seconds,
            idle=one.bubble,
            peak_bytes=round(_fullest(one)),
            fits=_fullest(one) <= memory,
        )
        for one in timelines
    ]
    return PipelineAnswer(
        device=request.device,
        memory=memory,
        microbatches=request.count,
        chunks=request.chunks,
        mesh=request.mesh,
        schedule=schedules[0],
        schedules=schedules,
        stages=[_stage(priced, timelines[0], stage) for stage in range(request.stages)],
        sent_bytes=round(priced.sent_bytes()),
        planned=planned,
    )


def _stage(priced: PricedPipeline, best: PipelineTimeline, stage: int) -> StageFigures:
    program, count = priced.program, priced.program.microbatches
    chunks = range(stage, best.schedule.last_chunk + 1, program.stages)
    costs = [best.costs[chunk] for chunk in chunks]
    busy = best.busy_seconds(stage)
    return StageFigures(
        stage=stage,
        layers=[program.layers[chunk] for chunk in chunks],
        forward_seconds=count * sum(cost.forward for cost in costs),
        backward_seconds=count * sum(cost.backward for cost in costs),
        optimizer_seconds=sum(cost.optimizer for cost in costs),
        peak_bytes=round(best.peak_bytes(stage)),
        in_flight=best.schedule.in_flight(stage) if program.training else 1,
        idle=1.0 - busy / best.seconds if best.seconds else 0.0,
    )
