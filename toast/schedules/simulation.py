"""A schedule run on paper: when each step starts and ends (DistIR, sections 2.1 and 3.3).

Each stage does one step at a time, in its order, and waits for what the step reads. The time that
this takes is linear in the number of steps, but for a logarithm.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toast.analysis.errors import InvalidRequest
from toast.schedules.steps import PipelineSchedule, StageStep, Work
from toast.schedules.timeline import ChunkCosts, PipelineTimeline, TimedStep, TimedTransfer

LinkSeconds = Callable[[int, int, float], float]
"""From a source stage, a target stage and bytes to the seconds that sending takes."""
Pace = Callable[[int], float]
"""From how many stages work or send at a time to how fast each does, 1 where the costs hold."""


def simulate(
    schedule: PipelineSchedule,
    costs: Sequence[ChunkCosts],
    link: LinkSeconds,
    *,
    blocking: bool = False,
    pace: Pace | None = None,
) -> PipelineTimeline:
    """The timeline of a schedule, with the `costs` of each chunk.

    Transfers run beside the work, one at a time from one stage to another. If `blocking`, they are
    DistIR's: both stages do nothing else meanwhile, and a transfer comes before the next step.
    Without a `pace` everything takes what it costs, whatever else runs.

    Raises:
        InvalidRequest: there are not as many costs as chunks, or the schedule waits for ever.
    """
    if len(costs) != schedule.last_chunk + 1:
        raise InvalidRequest(
            f"{len(costs)} costs were given for {schedule.last_chunk + 1} chunks.",
            "Give one for each.",
        )
    run = _Run(schedule, tuple(costs), link, blocking, pace)
    return run.timeline()


@dataclass(slots=True)
class _Run:
    """The state of a simulation at one time."""

    schedule: PipelineSchedule
    costs: tuple[ChunkCosts, ...]
    link: LinkSeconds
    blocking: bool
    pace: Pace | None
    at: list[int] = field(init=False)
    idle: list[bool] = field(init=False)
    waits: dict[StageStep, int] = field(default_factory=dict)
    """By step, how many of the results that it reads are not there yet."""
    pending: list[deque[tuple[int, StageStep]]] = field(init=False)
    """By stage, transfers from or to it that wait for both ends, with their targets.

    Each joins both queues at one time, so the queues agree on the order and no two wait for each
    other.
    """
    lines: dict[tuple[int, int], deque[StageStep]] = field(default_factory=dict)
    """By source and target, what is on its way, first, and what waits for the line."""
    events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    """What ends when, by a clock that shows the work that one stage could have done."""
    clock: float = 0.0
    steps: list[TimedStep] = field(default_factory=list)
    transfers: list[TimedTransfer] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        stages = self.schedule.stages
        self.at = [0] * stages
        self.idle = [True] * stages
        self.pending = [deque() for _ in range(stages)]
        for _, step in self.schedule.all_steps():
            self.waits[step] = len(self.schedule.needs(step))

    def timeline(self) -> PipelineTimeline:
        for stage in range(self.schedule.stages):
            self._start(stage, 0.0)
        now = 0.0
        while self.events:
            running = len(self.events)
            clock, _, happen = heapq.heappop(self.events)
            if self.pace is None:
                now = clock
            else:
                now += (clock - self.clock) / self.pace(running)
            self.clock = clock
            happen(now)
        for stage, steps in enumerate(self.schedule.steps):
            if self.at[stage] < len(steps):
                raise InvalidRequest(
                    f"{steps[self.at[stage]]} of stage {stage} never starts.",
                    "The schedule's order makes it wait for ever.",
                )
        return PipelineTimeline(
            schedule=self.schedule,
            costs=self.costs,
            steps=tuple(sorted(self.steps, key=lambda timed: (timed.start, timed.stage))),
            transfers=tuple(sorted(self.transfers, key=lambda sent: (sent.start, sent.source))),
        )

    def _after(self, seconds: float, happen: Callable[[float], None]) -> None:
        """Let something happen after so many seconds of undisturbed work."""
        self._number += 1
        heapq.heappush(self.events, (self.clock + seconds, self._number, happen))

    def _start(self, stage: int, now: float) -> None:
        """Let an idle stage send what waits, or do its next step."""
        if not self.idle[stage]:
            return
        if self.pending[stage]:
            self._meet(stage, now)
            return
        steps = self.schedule.steps[stage]
        if self.at[stage] == len(steps) or self.waits[steps[self.at[stage]]]:
            return
        step = steps[self.at[stage]]
        self.at[stage] += 1
        self.idle[stage] = False
        seconds = self.costs[step.chunk].seconds(step.work)
        self._after(seconds, lambda end: self._finish(TimedStep(stage, step, now, end)))

    def _finish(self, timed: TimedStep) -> None:
        """A step has ended: send what others read, and go on."""
        stage, step, now = timed.stage, timed.step, timed.end
        self.steps.append(timed)
        self.idle[stage] = True
        readers = self.schedule.readers(step)
        ends = [self.schedule.stage_of(reader.chunk) for reader in readers]
        for target in ends:
            if target != stage and self.blocking:
                self.pending[stage].append((target, step))
                self.pending[target].append((target, step))
            elif target != stage:
                self._send(stage, target, step, now)
        for reader, target in zip(readers, ends, strict=True):
            if target == stage:
                self.waits[reader] -= 1
        for end in (stage, *ends):
            self._start(end, now)

    def _arrive(self, reader: StageStep, now: float) -> None:
        self.waits[reader] -= 1
        self._start(self.schedule.stage_of(reader.chunk), now)

    def _reader(self, target: int, step: StageStep) -> StageStep:
        return next(
            reader
            for reader in self.schedule.readers(step)
            if self.schedule.stage_of(reader.chunk) == target and reader.work is step.work
        )

    def _bytes(self, step: StageStep) -> float:
        if step.work is Work.FORWARD:
            return self.costs[step.chunk].sent_bytes
        return self.costs[step.chunk - 1].returned_bytes

    def _send(self, source: int, target: int, step: StageStep, now: float) -> None:
        """Send beside the work, behind what is on its way between the two already."""
        line = self.lines.setdefault((source, target), deque())
        line.append(step)
        if len(line) == 1:
            self._carry(source, target, now)

    def _carry(self, source: int, target: int, now: float) -> None:
        """Start the first transfer of a line, and the next one when it has arrived."""
        line = self.lines[source, target]
        step = line[0]

        def arrived(end: float) -> None:
            line.popleft()
            if line:
                self._carry(source, target, end)
            self._arrive(self._reader(target, step), end)

        self._transfer(source, target, step, now, arrived)

    def _transfer(
        self,
        source: int,
        target: int,
        step: StageStep,
        start: float,
        arrived: Callable[[float], None],
    ) -> None:
        """A transfer that starts now; it is noted when it has arrived."""
        size = self._bytes(step)

        def note(end: float) -> None:
            self.transfers.append(TimedTransfer(source, target, step, start, end, size))
            arrived(end)

        self._after(self.link(source, target, size), note)

    def _meet(self, stage: int, now: float) -> None:
        """Start the first transfer of a stage, once both ends have come to it."""
        target, step = self.pending[stage][0]
        source = self.schedule.stage_of(step.chunk)
        both = (source, target)
        if not all(self.idle[end] and self.pending[end][0] == (target, step) for end in both):
            return
        for end in both:
            self.idle[end] = False
            self.pending[end].popleft()
        self._transfer(source, target, step, now, lambda then: self._received(both, step, then))

    def _received(self, both: tuple[int, int], step: StageStep, now: float) -> None:
        for end in both:
            self.idle[end] = True
        self._arrive(self._reader(both[1], step), now)
        for end in both:
            self._start(end, now)
