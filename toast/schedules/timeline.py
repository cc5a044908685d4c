"""What a simulated pipeline does when, and what of it people ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toast.schedules.steps import PipelineSchedule, StageStep, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCosts:
    """Seconds of one device's work for a chunk of layers, and bytes that it holds.

    `forward` and `backward` are of one microbatch, `optimizer` of a step. `state_bytes` are there
    all the time: weights, moments, the sum of gradients. `kept_bytes` of a microbatch are there
    from its forward step to its backward step, `forward_bytes` and `backward_bytes` only during
    these steps. `sent_bytes` go to the next chunk, `returned_bytes` from there back to this one.
    """

    forward: float
    backward: float = 0.0
    optimizer: float = 0.0
    state_bytes: float = 0.0
    kept_bytes: float = 0.0
    forward_bytes: float = 0.0
    backward_bytes: float = 0.0
    sent_bytes: float = 0.0
    returned_bytes: float = 0.0

    def seconds(self, work: Work) -> float:
        """How long a step takes."""
        if work is Work.FORWARD:
            return self.forward
        return self.backward if work is Work.BACKWARD else self.optimizer

    def working_bytes(self, work: Work) -> float:
        """What is there during a step alone."""
        if work is Work.FORWARD:
            return self.forward_bytes
        return self.backward_bytes if work is Work.BACKWARD else 0.0


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step of a stage with the seconds at which it starts and ends."""

    stage: int
    step: StageStep
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TimedTransfer:
    """What one stage sends to another: the result of a step, and when it is on its way."""

    source: int
    target: int
    step: StageStep
    start: float
    end: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTimeline:
    """A simulated run of a schedule; steps and transfers by the time at which they start."""

    schedule: PipelineSchedule
    costs: tuple[ChunkCosts, ...]
    steps: tuple[TimedStep, ...]
    transfers: tuple[TimedTransfer, ...]

    @property
    def seconds(self) -> float:
        """When the last step has ended."""
        return max((timed.end for timed in self.steps), default=0.0)

    def busy_seconds(self, stage: int) -> float:
        """How long a stage computes."""
        return sum(timed.end - timed.start for timed in self.of_stage(stage))

    @property
    def bubble(self) -> float:
        """The part of all devices' time in which they compute nothing, from 0 to 1."""
        total = self.seconds * self.schedule.stages
        busy = sum(self.busy_seconds(stage) for stage in range(self.schedule.stages))
        return 1.0 - busy / total if total else 0.0

    def of_stage(self, stage: int) -> Iterator[TimedStep]:
        """The steps of one stage, in order."""
        return (timed for timed in self.steps if timed.stage == stage)

    def memory(self, stage: int) -> list[tuple[float, float]]:
        """Seconds, and bytes that one device of a stage holds from then on, in order.

        A microbatch of a chunk is kept from the start of its forward step to the end of its
        backward step; where nothing is trained, until it was sent.
        """
        schedule, costs = self.schedule, self.costs
        chunks = range(stage, schedule.last_chunk + 1, schedule.stages)
        held = sum(costs[chunk].state_bytes for chunk in chunks)
        changes: list[tuple[float, int, float]] = []
        for timed in self.of_stage(stage):
            cost, work = costs[timed.step.chunk], timed.step.work
            working = cost.working_bytes(work)
            if work is Work.FORWARD:
                changes.append((timed.start, 1, cost.kept_bytes))
            if work is Work.BACKWARD or not schedule.training:
                changes.append((timed.end, 0, -cost.kept_bytes))
            changes += [(timed.start, 1, working), (timed.end, 0, -working)]
        # What ends at an instant has gone when the next step starts.
        changes.sort(key=lambda change: change[:2])
        found = [(0.0, held)]
        for at, _, change in changes:
            held += change
            found.append((at, held))
        return found

    def peak_bytes(self, stage: int) -> float:
        """The most that one device of a stage holds at a time."""
        return max(held for _, held in self.memory(stage))
