"""A request with numbers left open, answered by one for microbatches, stages, mesh and cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import decode
from toast.costmodel.hardware.devices import Device
from toast.pipeline.pipelining.costs import simulate_on
from toast.pipeline.pipelining.degrees import (
    Degrees,
    DegreeSpace,
    PinnedStages,
    best_degrees,
    divisors,
)
from toast.pipeline.pipelining.layers import cut_by_layers
from toast.plans.pipeline_answer import DegreeFigures
from toast.request.pipeline_request import AUTO, PipelineRequest
from toast.schedules.orders import NAMES
from toast.schedules.timeline import ChunkCosts
from toast.stages.cut import batch_size
from toast.stages.homes import even_cuts

_BEGIN, _END = 0.1, 0.3
_SLOWER = 2
"""After so many numbers of microbatches in a row that fit and are slower, no more are tried."""


def search_degrees(
    module: bytes,
    names: Sequence[str],
    request: PipelineRequest,
    device: Device,
    report: Callable[[str, float], None],
) -> tuple[PipelineRequest, list[Degrees]]:
    """The request with all that it leaves open decided, and all ways that were compared."""
    search = _Search(module, names, device, report)
    counts = _counts(module, request)
    memory = memory_of(request, device)
    tried = list(
        until_slower(
            (search.ways(request.model_copy(update={"microbatches": count})) for count in counts),
            memory,
        )
    )
    found = sorted((one for some in tried for one in some), key=lambda one: one.rank(memory))
    return _request_for(request, found), found


def until_slower(tried: Iterable[Sequence[Degrees]], memory: float) -> Iterator[Sequence[Degrees]]:
    """The ways for ever more microbatches, each the best first, while more may still help.

    More of them leave the stages idle for less, and need less memory, but start more programs and
    read all weights more often. So once they are slower, they remain so.
    """
    best: tuple[float, ...] | None = None
    slower = 0
    for some in tried:
        yield some
        if not some:
            continue
        rank = some[0].rank(memory)
        slower = slower + 1 if best is not None and rank >= best and rank[0] == 0 else 0
        best = rank if best is None else min(best, rank)
        if slower == _SLOWER:
            return


def _counts(module: bytes, request: PipelineRequest) -> list[int]:
    """The numbers of microbatches to try: the one that is given, or all that divide the batch."""
    if request.microbatches != AUTO:
        return [request.count]
    return divisors(batch_size(decode(module).module))


@dataclass(frozen=True, slots=True)
class _Search:
    """Compares the ways to run one module in a given number of microbatches."""

    module: bytes
    names: Sequence[str]
    device: Device
    report: Callable[[str, float], None]

    def ways(self, request: PipelineRequest) -> list[Degrees]:
        """The best schedule for each number of stages and mesh, the best of all first."""
        said = f"pricing layers in {request.count} microbatches"
        self.report(said, _BEGIN)
        pricer = cut_by_layers(self.module, self.names, request)
        space = _space(request, pricer.layers, training=pricer.cut.program.training)
        meshes, done = space.meshes(), set[str | None]()

        def costs(mesh: str | None) -> Sequence[ChunkCosts]:
            share = len(done) / len(meshes)
            self.report(f"{said} on {mesh or 'one chip'}", _BEGIN + (_END - _BEGIN) * share)
            done.add(mesh)
            return pricer.costs(mesh)

        return best_degrees(
            space,
            costs,
            partial(simulate_on, self.device),
            memory_of(request, self.device),
        )


def _space(request: PipelineRequest, layers: int, *, training: bool) -> DegreeSpace:
    """What is open in a request whose number of microbatches is decided."""
    if request.devices is None:
        even_cuts(layers, request.stages * request.chunks)  # refuses more chunks than layers
    pinned = PinnedStages(
        stages=request.stages, mesh=request.mesh, chunks=request.chunks, cuts=request.cuts
    )
    return DegreeSpace(
        devices=request.devices or 1,
        layers=layers,
        microbatches=request.count,
        training=training,
        schedules=NAMES if request.schedule == "auto" else (request.schedule,),
        pinned=pinned if request.devices is None else None,
    )


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
            "microbatches": best.microbatches,
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
            microbatches=one.microbatches,
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
