"""What a stage of a pipeline does, step by step, and which steps need which.

A pipeline has stages, each on its own devices. A stage holds one or more *chunks*, runs of layers
that follow each other; chunk `c` of all lies on stage `c % stages`. A batch is cut into
microbatches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from toast.analysis.errors import InvalidRequest


class Work(StrEnum):
    """What a step computes."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True)
class StageStep:
    """One piece of work of a stage: of a chunk and, but for the optimizer, of a microbatch."""

    work: Work
    chunk: int
    microbatch: int = 0

    def __str__(self) -> str:
        if self.work is Work.OPTIMIZER:
            return f"{self.work} of chunk {self.chunk}"
        return f"{self.work} of chunk {self.chunk}, microbatch {self.microbatch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSchedule:
    """The order of work of every stage; `chunks` is how many each stage holds.

    `steps` has a sequence for each stage. Without `training` there are forward steps alone.
    """

    name: str
    stages: int
    microbatches: int
    chunks: int
    training: bool
    steps: tuple[tuple[StageStep, ...], ...]

    @property
    def last_chunk(self) -> int:
        """The number of the chunk that makes the loss."""
        return self.stages * self.chunks - 1

    def stage_of(self, chunk: int) -> int:
        """The stage that holds a chunk."""
        return chunk % self.stages

    def needs(self, step: StageStep) -> tuple[StageStep, ...]:
        """The steps whose results a step reads.

        Those of other stages are sent. An optimizer reads what the backward steps of its chunk
        add up to.
        """
        chunk, microbatch = step.chunk, step.microbatch
        if step.work is Work.FORWARD:
            return (StageStep(Work.FORWARD, chunk - 1, microbatch),) if chunk else ()
        if step.work is Work.OPTIMIZER:
            every = range(self.microbatches)
            return tuple(StageStep(Work.BACKWARD, chunk, number) for number in every)
        own = StageStep(Work.FORWARD, chunk, microbatch)
        if chunk == self.last_chunk:
            return (own,)
        return own, StageStep(Work.BACKWARD, chunk + 1, microbatch)

    def readers(self, step: StageStep) -> tuple[StageStep, ...]:
        """The steps that read what a step makes; the opposite of `needs`."""
        chunk, microbatch = step.chunk, step.microbatch
        found: list[StageStep] = []
        if step.work is Work.FORWARD:
            if chunk < self.last_chunk:
                found.append(StageStep(Work.FORWARD, chunk + 1, microbatch))
            if self.training:
                found.append(StageStep(Work.BACKWARD, chunk, microbatch))
        elif step.work is Work.BACKWARD:
            if chunk:
                found.append(StageStep(Work.BACKWARD, chunk - 1, microbatch))
            found.append(StageStep(Work.OPTIMIZER, chunk))
        return tuple(found)

    def in_flight(self, stage: int) -> int:
        """The most microbatches of chunks whose backward steps a stage has still to do."""
        now = most = 0
        for step in self.steps[stage]:
            now += {Work.FORWARD: 1, Work.BACKWARD: -1, Work.OPTIMIZER: 0}[step.work]
            most = max(most, now)
        return most

    def all_steps(self) -> Iterator[tuple[int, StageStep]]:
        """Every step with its stage."""
        for stage, steps in enumerate(self.steps):
            for step in steps:
                yield stage, step


def expected_steps(schedule: PipelineSchedule, stage: int) -> Iterator[StageStep]:
    """What a stage has to do, in no order that matters."""
    for chunk in range(stage, schedule.last_chunk + 1, schedule.stages):
        for microbatch in range(schedule.microbatches):
            yield StageStep(Work.FORWARD, chunk, microbatch)
            if schedule.training:
                yield StageStep(Work.BACKWARD, chunk, microbatch)
        if schedule.training:
            yield StageStep(Work.OPTIMIZER, chunk)


def check_schedule(schedule: PipelineSchedule) -> None:
    """Refuse a schedule with steps left out, twice, on a wrong stage, or that wait for ever.

    Raises:
        InvalidRequest: names the first step that is wrong.
    """
    for stage in range(schedule.stages):
        missing = Counter(expected_steps(schedule, stage))
        missing.subtract(schedule.steps[stage])
        for step, count in missing.items():
            if count:
                says = "leaves out" if count > 0 else "repeats or misplaces"
                raise InvalidRequest(
                    f"The schedule {says} {step} on stage {stage}.",
                    "Every chunk has one forward and one backward step for each microbatch.",
                )
    waiting = _stuck(schedule)
    if waiting is not None:
        raise InvalidRequest(
            f"The schedule waits for ever: {waiting[1]} of stage {waiting[0]} never starts.",
            "A step may need only what steps before it make.",
        )


def _stuck(schedule: PipelineSchedule) -> tuple[int, StageStep] | None:
    """A step that no order of the stages' work reaches."""
    done: set[StageStep] = set()
    at = [0] * schedule.stages
    moving = set(range(schedule.stages))
    while moving:
        stage = moving.pop()
        steps = schedule.steps[stage]
        while at[stage] < len(steps) and done.issuperset(schedule.needs(steps[at[stage]])):
            step = steps[at[stage]]
            done.add(step)
            at[stage] += 1
            moving.update(schedule.stage_of(reader.chunk) for reader in schedule.readers(step))
        moving.discard(stage)
    for stage, position in enumerate(at):
        if position < len(schedule.steps[stage]):
            return stage, schedule.steps[stage][position]
    return None
