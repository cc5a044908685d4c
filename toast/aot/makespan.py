"""How long a compiled schedule takes when its asynchronous collectives run beside computation.

Two streams, one of computation and one of the network. An instruction runs on its stream when the
stream is free. A collective that is waited for at once stops both. An asynchronous one takes the
network from its start, and computation waits for it at its `-done`. A TPU writes such a pair as two
fusions, whose computations end in `AsyncCollectiveStart` and `AsyncCollectiveDone`; the fusions
between carry what has been started along with their own work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from toast.aot.collective_time import CollectiveClock
from toast.aot.collectives import FoundCollective, collective_of, has_collective
from toast.aot.cycles import estimated_cycles
from toast.aot.hlo import Computation, HloModule, Instruction
from toast.aot.run_counts import Run, trip_count
from toast.aot.verdict import CompiledCollective, Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import SliceMajor

_START, _DONE = "AsyncCollectiveStart", "AsyncCollectiveDone"
Shares = dict[tuple[Kind, tuple[str, ...] | None, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """One run of a computation: how long, and whether it uses the network."""

    seconds: float = 0.0
    sends: bool = False


@dataclass(slots=True)
class _Streams:
    """When computation and network are free, and when what was started is there."""

    compute: float = 0.0
    network: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    started: dict[str, frozenset[str]] = field(default_factory=dict)

    def send(self, seconds: float) -> None:
        """A collective that is waited for."""
        self.network = self.compute = max(self.compute, self.network) + seconds

    def start(self, name: str, seconds: float) -> None:
        """A collective that runs beside what comes next."""
        self.network = max(self.compute, self.network) + seconds
        self.ends[name] = self.network
        self.started[name] = frozenset({name})

    def carry(self, instruction: Instruction) -> frozenset[str]:
        """Hand on what the operands have of started collectives."""
        known = [found for name in instruction.operands if (found := self.started.get(name))]
        carried = frozenset[str]().union(*known)
        if carried:
            self.started[instruction.name] = carried
        return carried

    def wait(self, names: frozenset[str]) -> None:
        """Stop computation until these are there."""
        self.compute = max([self.compute, *(self.ends[name] for name in names)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWalk:
    """Walks the schedule of one module; `clock` is cycles per second of its chip."""

    module: HloModule
    mesh: Mesh | SliceMajor
    network: CollectiveClock
    clock: float
    shares: Shares

    def seconds(self) -> float:
        """The makespan of one step."""
        return self._span(self.module.entry).seconds

    def _span(self, computation: Computation) -> _Span:
        streams, sends = _Streams(), False
        for instruction in computation.instructions:
            inner = self._inner(computation, instruction)
            if inner.sends:
                streams.send(inner.seconds)
            else:
                streams.compute += inner.seconds
            sends |= inner.sends | self._run(streams, computation, instruction)
        return _Span(seconds=max(streams.compute, streams.network), sends=sends)

    def _run(self, streams: _Streams, within: Computation, instruction: Instruction) -> bool:
        """One instruction without what it calls in turn; whether it sends."""
        sent = self._sent(within, instruction)
        carried = streams.carry(instruction)
        if self._ends_in(instruction, _DONE) or instruction.opcode.endswith("-done"):
            streams.wait(carried)
            streams.started.pop(instruction.name, None)
        streams.compute += estimated_cycles(instruction) / self.clock
        if sent and (is_start(instruction) or self._ends_in(instruction, _START)):
            streams.start(instruction.name, sent)
        elif sent:
            streams.send(sent)
        return sent > 0

    def _inner(self, within: Computation, instruction: Instruction) -> _Span:
        """What a loop, a call or the branches of a conditional take, all runs together."""
        trips = 1.0
        match instruction.opcode:
            case "while":
                trips = trip_count(self.module, within, instruction)
                called = instruction.called("body")
            case "conditional":
                called = instruction.called(
                    "branch_computations", "true_computation", "false_computation"
                )
            case "call":
                called = instruction.called("to_apply")
            case _:
                return _Span()
        spans = [self._span(found) for name in called if (found := self._computation(name))]
        return _Span(
            seconds=trips * sum(span.seconds for span in spans),
            sends=any(span.sends for span in spans),
        )

    def _sent(self, within: Computation, instruction: Instruction) -> float:
        """Seconds of the collectives that an instruction starts or is."""
        run = Run(computation=within, trips=1.0, fused=False, caller=None)
        return sum(map(self._time, self._collectives(run, instruction)))

    def _collectives(self, run: Run, instruction: Instruction) -> Iterator[FoundCollective]:
        if (found := collective_of(run, instruction, self.mesh)) is not None:
            yield found
        if instruction.opcode not in ("fusion", "async-start"):
            return
        for name in instruction.called("calls"):
            if (inner := self._computation(name)) is not None:
                within = Run(computation=inner, trips=1.0, fused=True, caller=instruction)
                for one in inner.instructions:
                    yield from self._collectives(within, one)

    def _time(self, found: FoundCollective) -> float:
        share = self.shares.get((found.kind, found.axes, found.group_size), 1.0)
        return share * self.network.one(found.kind, found.axes, found.group_size, found.size)

    def _ends_in(self, instruction: Instruction, target: str) -> bool:
        """Whether an instruction is a fusion whose computation ends in a call of `target`."""
        if instruction.opcode != "fusion":
            return False
        called = map(self._computation, instruction.called("calls"))
        return any(
            found is not None and has_collective(found) and f'"{target}"' in found.root.tail
            for found in called
        )

    def _computation(self, name: str) -> Computation | None:
        return self.module.computations.get(name)


def is_start(instruction: Instruction) -> bool:
    """Whether what an instruction sends is waited for at another."""
    return instruction.opcode.endswith("-start") or instruction.opcode == "recv"


def makespan(
    module: HloModule,
    mesh: Mesh | SliceMajor,
    network: CollectiveClock,
    clock: float,
    rows: tuple[CompiledCollective, ...],
) -> float:
    """Seconds of a step with two streams; `rows` are the module's collectives summed up."""
    shares = {(row.kind, row.axes, row.group_size): network.share(row) for row in rows}
    walk = ScheduleWalk(module=module, mesh=mesh, network=network, clock=clock, shares=shares)
    return walk.seconds()
