"""Our plan of a way, with the layouts that its degrees say, and what the simulator says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.distir.grid import Way
from benchmarks.distir.programs import Program
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.pipelining.plan_pipeline import plan_pipeline
from toast.pipeline.plan_module import make_plan
from toast.plans.plan import Tensor
from toast.request.pipeline_request import make_pipeline_request
from toast.request.request import PlanRequest
from toast.schedules.orders import ONE_F_ONE_B, make_schedule
from toast.stages.files import write_pipeline
from toast.stages.homes import even_cuts
from toast.stages.wiring import Layout, Phase, PipelineProgram, StageModule

ROLLOUTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What is predicted of a way: seconds of a step, idle part, bytes of the fullest device."""

    seconds: float
    idle: float
    peak_bytes: float


def simulate_way(program: Program, way: Way, device: str, folder: Path | None) -> Simulated:
    """Plan a way for a device and simulate it; what `toast.run_pipeline` runs goes to `folder`."""
    if way.stages > 1:
        return _pipeline(program, way, device, folder)
    return _whole(program, way, device, folder)


def _pipeline(program: Program, way: Way, device: str, folder: Path | None) -> Simulated:
    layouts = program.layouts(way.data, way.tensor)
    request = make_pipeline_request(
        stages=way.stages,
        microbatches=way.microbatches,
        mesh=way.mesh,
        cuts=even_cuts(program.layers, way.stages),
        schedule=ONE_F_ONE_B,
        device=device,
        rollouts=ROLLOUTS,
    )
    named: Mapping[str, Layout] = {f"argument:{n}": one for n, one in enumerate(layouts)}
    planned = plan_pipeline(program.module, request, lambda _, __: None, named)
    if folder is not None:
        planned.write(folder)
    timeline = planned.timelines[0]
    return Simulated(
        seconds=timeline.seconds,
        idle=timeline.bubble,
        peak_bytes=max(timeline.peak_bytes(stage) for stage in range(way.stages)),
    )


def _whole(program: Program, way: Way, name: str, folder: Path | None) -> Simulated:
    """One sharded module, which a pipeline of one stage with nothing but forward work runs."""
    assert way.mesh is not None
    module, device = str(decode(program.module).module).encode(), find(name)
    pins = tuple(
        f"{number}=" + ",".join("+".join(axes) or "None" for axes in layout)
        for number, layout in enumerate(program.layouts(way.data, way.tensor))
        if layout
    )
    request = PlanRequest(mesh=way.mesh, device=name, pins=pins, rollouts=ROLLOUTS, advice=False)
    result = make_plan(module, request)
    if folder is not None:
        wired = _wired(module, result.plan.arguments, result.plan.results, way.mesh)
        write_pipeline(folder, wired, [result.module.decode()], make_schedule(ONE_F_ONE_B, 1, 1))
    predicted = result.plan.predicted
    return Simulated(
        seconds=(predicted.step_seconds + device.program_start) / device.pace(way.devices),
        idle=0.0,
        peak_bytes=predicted.peak_bytes,
    )


def _wired(
    module: bytes, arguments: Sequence[Tensor], results: Sequence[Tensor], mesh: str
) -> PipelineProgram:
    ends = tuple(f"end:{number}" for number in range(len(results)))
    whole = StageModule(
        phase=Phase.FORWARD,
        stage=0,
        number=0,
        inputs=tuple(f"argument:{number}" for number in range(len(arguments))),
        outputs=ends,
        input_specs=_layouts(arguments),
        output_specs=_layouts(results),
    )
    return PipelineProgram(
        stages=1,
        chunks=1,
        microbatches=1,
        training=True,
        arguments=tuple(argument.name for argument in load(module).program.arguments),
        results=ends,
        layers=("",),
        modules=(whole,),
        mesh=tuple((axis.name, axis.size) for axis in Mesh.parse(mesh).axes),
    )


def _layouts(tensors: Sequence[Tensor]) -> tuple[Layout, ...]:
    return tuple(tuple(tuple(axes) for axes in tensor.spec) for tensor in tensors)
