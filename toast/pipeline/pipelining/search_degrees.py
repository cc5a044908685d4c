"""A request for a number of devices, answered by one for stages, their mesh, chunks and cuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toast.analysis.errors import InvalidRequest
from toast.costmodel.hardware.devices import Device
from toast.pipeline.pipelining.costs import link_seconds
from toast.pipeline.pipelining.degrees import Degrees, DegreeSpace, best_degrees
from toast.pipeline.pipelining.layers import cut_by_layers
from toast.plans.pipeline_answer import DegreeFigures
from toast.request.pipeline_request import PipelineRequest
from toast.schedules.orders import NAMES
from toast.schedules.timeline import ChunkCosts

_BEGIN, _END = 0.1, 0.3


def search_degrees(
    module: bytes,
    names: Sequence[str],
    request: PipelineRequest,
    device: Device,
    report: Callable[[str, float], None],
) -> tuple[PipelineRequest, list[Degrees]]:
    """The request for the best use of all devices, and all uses that were compared."""
    assert request.devices is not None
    report("pricing layers", _BEGIN)
    pricer = cut_by_layers(module, names, request)
    space = DegreeSpace(
        devices=request.devices,
        layers=pricer.layers,
        microbatches=request.microbatches,
        training=pricer.cut.program.training,
        schedules=NAMES if request.schedule == "auto" else (request.schedule,),
    )
    meshes = space.meshes()
    done: set[str | None] = set()

    def costs(mesh: str | None) -> Sequence[ChunkCosts]:
        share = len(done) / len(meshes)
        report(f"pricing layers on {mesh or 'one chip'}", _BEGIN + (_END - _BEGIN) * share)
        done.add(mesh)
        return pricer.costs(mesh)

    found = best_degrees(
        space,
        costs,
        lambda _, __, size: link_seconds(device, size),
        memory_of(request, device),
    )
    return _request_for(request, found), found


def _request_for(request: PipelineRequest, found: Sequence[Degrees]) -> PipelineRequest:
    if not found:
        raise InvalidRequest(
            f"The schedule {request.schedule} suits no number of stages here.",
            "Give a number of microbatches that more stages divide, or leave the schedule out.",
        )
    best = found[0]
    return request.model_copy(
        update={
            "devices": None,
            "stages": best.stages,
            "mesh": best.mesh,
            "chunks": best.chunks,
            "cuts": best.cuts,
            "schedule": best.schedule,
        }
    )


def memory_of(request: PipelineRequest, device: Device) -> int:
    """The bytes that a plan may use on each device."""
    return int(device.plannable_bytes if request.memory is None else request.memory)


def degree_figures(found: Sequence[Degrees], memory: float) -> tuple[DegreeFigures, ...]:
    """What was compared, for the answer."""
    return tuple(
        DegreeFigures(
            stages=one.stages,
            mesh=one.mesh,
            chunks=one.chunks,
            schedule=one.schedule,
            step_seconds=one.seconds,
            idle=one.idle,
            peak_bytes=round(one.peak_bytes),
            fits=one.peak_bytes <= memory,
        )
        for one in found
    )
