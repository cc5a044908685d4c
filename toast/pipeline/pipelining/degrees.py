"""Which degrees of pipeline, data and tensor parallelism suit a number of devices.

Layers are priced one by one on each mesh that a stage may have (DistIR, section 5). What a chunk
costs is what its layers cost together, so all cuts and schedules of a mesh share these prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from toast.costmodel.network.mesh import Mesh
from toast.pipeline.pipelining.balance import least_longest
from toast.schedules.orders import GPIPE, INTERLEAVED, ONE_F_ONE_B, make_schedule
from toast.schedules.steps import PipelineSchedule
from toast.schedules.timeline import ChunkCosts, PipelineTimeline

LayerCosts = Callable[[str | None], Sequence[ChunkCosts]]
"""From the mesh of a stage, None for a single chip, to the costs of each layer on it."""
Simulate = Callable[[PipelineSchedule, Sequence[ChunkCosts], int], PipelineTimeline]
"""From a schedule, the costs of its chunks and the devices of a stage to a timeline."""
_CHUNKS = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """A way to use all devices: so many stages, each of one mesh, and what a step takes then."""

    microbatches: int
    stages: int
    mesh: str | None
    chunks: int
    cuts: tuple[int, ...]
    schedule: str
    seconds: float
    idle: float
    peak_bytes: float

    def rank(self, memory: float) -> tuple[float, float, float]:
        """What fits is before what does not; then the faster, then the smaller."""
        return max(0.0, self.peak_bytes - memory), self.seconds, self.peak_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedStages:
    """What is given of a pipeline: its stages, the mesh of each, its chunks, maybe its cuts."""

    stages: int
    mesh: str | None
    chunks: int
    cuts: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeSpace:
    """What is searched: pipelines on `devices` of a step with `layers`, in `microbatches`.

    `schedules` are the names to choose from. With `pinned` the stages, their mesh, chunks and cuts
    are given, and only schedules are compared.
    """

    devices: int
    layers: int
    microbatches: int
    training: bool
    schedules: tuple[str, ...] = (ONE_F_ONE_B, GPIPE, INTERLEAVED)
    pinned: PinnedStages | None = None

    def meshes(self) -> list[tuple[int, str | None]]:
        """Numbers of stages, each with a mesh of a stage; together they use all devices."""
        if self.pinned is not None:
            return [(self.pinned.stages, self.pinned.mesh)]
        return [
            (stages, mesh)
            for stages in divisors(self.devices)
            if stages <= self.layers
            for mesh in stage_meshes(self.devices // stages)
        ]

    def orders(self, stages: int) -> Iterator[tuple[str, int]]:
        """The schedules, each with a number of chunks, that so many stages can have."""
        chunks = _CHUNKS if self.pinned is None else (self.pinned.chunks,)
        for name in self.schedules:
            if name != INTERLEAVED and (self.pinned is None or chunks == (1,)):
                yield name, 1
            elif name == INTERLEAVED and stages > 1 and self.microbatches % stages == 0:
                possible = (one for one in chunks if 1 < one <= self.layers // stages)
                yield from ((name, one) for one in possible)


def devices_of(mesh: str | None) -> int:
    """How many devices a mesh has; None is one."""
    return 1 if mesh is None else Mesh.parse(mesh).devices


def divisors(number: int) -> list[int]:
    """All that divide a number, in order."""
    return [one for one in range(1, number + 1) if number % one == 0]


def stage_meshes(devices: int) -> Iterator[str | None]:
    """Meshes with so many devices, which together offer all degrees of data and tensor parallelism.

    The planner gives any dimension any axes. So a mesh of 2 and 4 also offers 4 and 2, or all 8 to
    one dimension, and no mesh of one axis is needed beside one of two.
    """
    if devices == 1:
        yield None
        return
    pairs = [one for one in divisors(devices) if one > 1 and one * one <= devices]
    for data in pairs:
        yield f"data={data},model={devices // data}"
    if not pairs:
        yield f"data={devices}"


def best_degrees(
    space: DegreeSpace, layer_costs: LayerCosts, simulate: Simulate, memory: float
) -> list[Degrees]:
    """The best schedule for each number of stages and mesh, the best of all first."""
    found: list[Degrees] = []
    for stages, mesh in space.meshes():
        layers = layer_costs(mesh)
        tried = [
            _simulated(space, layers, simulate, Degrees(
                microbatches=space.microbatches, stages=stages, mesh=mesh, chunks=chunks, cuts=(),
                schedule=name, seconds=0.0, idle=0.0, peak_bytes=0.0,
            ))
            for name, chunks in space.orders(stages)
        ]  # fmt: skip
        if tried:
            found.append(min(tried, key=lambda one: one.rank(memory)))
    return sorted(found, key=lambda one: one.rank(memory))


def _simulated(
    space: DegreeSpace, layers: Sequence[ChunkCosts], simulate: Simulate, degrees: Degrees
) -> Degrees:
    seconds = [layer.forward + layer.backward for layer in layers]
    given = None if space.pinned is None else space.pinned.cuts
    cuts = least_longest(seconds, degrees.stages * degrees.chunks) if given is None else given
    schedule = make_schedule(
        degrees.schedule,
        degrees.stages,
        space.microbatches,
        chunks=degrees.chunks,
        training=space.training,
    )
    timeline = simulate(schedule, merged(layers, cuts), devices_of(degrees.mesh))
    return replace(
        degrees,
        cuts=cuts,
        seconds=timeline.seconds,
        idle=timeline.bubble,
        peak_bytes=max(timeline.peak_bytes(stage) for stage in range(degrees.stages)),
    )


def merged(layers: Sequence[ChunkCosts], cuts: Sequence[int]) -> list[ChunkCosts]:
    """The costs of chunks from those of layers; a chunk begins at each of the `cuts`."""
    ends = zip((0, *cuts), (*cuts, len(layers)), strict=True)
    return [_together(layers[first:end]) for first, end in ends]


def _together(layers: Sequence[ChunkCosts]) -> ChunkCosts:
    """Layers run one after another; only what they keep is there for all at a time."""
    return ChunkCosts(
        forward=sum(one.forward for one in layers),
        backward=sum(one.backward for one in layers),
        optimizer=sum(one.optimizer for one in layers),
        state_bytes=sum(one.state_bytes for one in layers),
        kept_bytes=sum(one.kept_bytes for one in layers),
        forward_bytes=max(one.forward_bytes for one in layers),
        backward_bytes=max(one.backward_bytes for one in layers),
        sent_bytes=layers[-1].sent_bytes,
        returned_bytes=layers[-1].returned_bytes,
    )
