"""From priced modules to the costs of chunks, which schedules are simulated with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from toast.costmodel.hardware.devices import Device
from toast.pipeline.pipelining.priced import PricedModule
from toast.schedules.simulation import simulate
from toast.schedules.steps import PipelineSchedule
from toast.schedules.timeline import ChunkCosts, PipelineTimeline
from toast.stages.wiring import Phase, PipelineProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPipeline:
    """All modules of a pipeline, priced, in the order of the program."""

    program: PipelineProgram
    modules: tuple[PricedModule, ...]

    def chunk_costs(self) -> list[ChunkCosts]:
        """The costs of each chunk; what a stage does or has for several is counted with its first.

        What is done once before the first microbatch is taken to be part of the optimizer.
        """
        return [self._costs(chunk) for chunk in range(self.program.stages * self.program.chunks)]

    def _costs(self, chunk: int) -> ChunkCosts:
        stage = chunk % self.program.stages
        forward = self._module(Phase.FORWARD, chunk)
        backward = self._module(Phase.BACKWARD, chunk)
        first = chunk < self.program.stages
        once = [
            one
            for phase in (Phase.BEFORE, Phase.AFTER)
            for one in self._of(phase)
            if one.wiring.stage == stage
        ]
        return ChunkCosts(
            forward=forward.seconds if forward else 0.0,
            backward=backward.seconds if backward else 0.0,
            optimizer=sum(one.seconds for one in once) if first else 0.0,
            state_bytes=self._state_bytes(stage) if first else 0.0,
            kept_bytes=_kept(forward, backward),
            forward_bytes=forward.working_bytes if forward else 0.0,
            backward_bytes=_own_bytes(backward),
            sent_bytes=self._sent(forward),
            returned_bytes=self._sent(self._module(Phase.BACKWARD, chunk + 1), to=stage),
        )

    def sent_bytes(self) -> float:
        """The most that goes from one stage to the next for a microbatch."""
        return max((cost.sent_bytes for cost in self.chunk_costs()), default=0.0)

    def _of(self, phase: Phase) -> Iterable[PricedModule]:
        return (one for one in self.modules if one.wiring.phase is phase)

    def _module(self, phase: Phase, chunk: int) -> PricedModule | None:
        return next((one for one in self._of(phase) if one.wiring.number == chunk), None)

    def _state_bytes(self, stage: int) -> float:
        """What a stage has all the time: arguments, what is made of them, sums."""
        held: dict[str, float] = {}
        for one in self.modules:
            if one.wiring.stage == stage:
                for name, size in one.bytes_by_name().items():
                    if name.startswith(("argument:", "kept:", "sum:")):
                        held[name] = max(size, held.get(name, 0.0))
        return sum(held.values())

    def _sent(self, module: PricedModule | None, to: int | None = None) -> float:
        """The bytes of what a module makes that other stages read; those of one stage alone."""
        if module is None:
            return 0.0
        readers: dict[str, set[int]] = {}
        for one in self.modules:
            for name in one.wiring.inputs:
                readers.setdefault(name, set()).add(one.wiring.stage)
        total = 0.0
        made = zip(module.wiring.outputs, module.output_bytes, strict=True)
        for name, size in made:
            others = readers.get(name, set()) - {module.wiring.stage}
            if name.startswith("value:") and (others if to is None else to in others):
                total += size
        return total


def _kept(forward: PricedModule | None, backward: PricedModule | None) -> float:
    """What the backward work of a microbatch reads that is there since its forward work."""
    if forward is None:
        return 0.0
    there = forward.bytes_by_name()
    wanted = set(there) if backward is None else set(backward.wiring.inputs)
    names: Sequence[str] = [name for name in there if name.startswith("value:")]
    return sum(there[name] for name in names if name in wanted)


def _own_bytes(backward: PricedModule | None) -> float:
    """What is there during backward work alone: what it sends, receives, and works with."""
    if backward is None:
        return 0.0
    sent = zip(backward.wiring.outputs, backward.output_bytes, strict=True)
    made = sum(size for name, size in sent if name.startswith("value:"))
    return backward.working_bytes + made


def _started(costs: Sequence[ChunkCosts], device: Device) -> list[ChunkCosts]:
    """The costs of chunks with the time that starting their programs takes."""
    start = device.program_start
    return [
        replace(
            cost,
            forward=cost.forward + start * (cost.forward > 0),
            backward=cost.backward + start * (cost.backward > 0),
            optimizer=cost.optimizer + start * (cost.optimizer > 0),
        )
        for cost in costs
    ]


def link_seconds(device: Device, size: float) -> float:
    """Seconds in which a chip sends so many bytes to a neighbour, over one of its links.

    A transfer is started as a program is.
    """
    link = device.links[0]
    return device.program_start + link.latency + size / (link.link_bandwidth * link.efficiency)


def simulate_on(
    device: Device, schedule: PipelineSchedule, costs: Sequence[ChunkCosts], stage_devices: int
) -> PipelineTimeline:
    """The timeline of a schedule whose stages have so many devices each.

    Devices that share a host slow each other down: their work takes what `Device.pace` says.
    """
    return simulate(
        schedule,
        _started(costs, device),
        lambda _, __, size: link_seconds(device, size),
        pace=None if device.shared_by == 1 else lambda stages: device.pace(stages * stage_devices),
    )
