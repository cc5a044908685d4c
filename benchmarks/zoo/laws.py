"""Laws that no price breaks, reckoned from a program and its layouts alone.

They are bounds: what a device has to read and write once, and what it has to hold. Nothing here is
taken from the tables of the cost model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toast.analysis.program import ARGUMENT, TRANSFERS, Program
from toast.analysis.types import itemsize
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.plans.plan import Spec

SLACK = 1e-6
"""Of rounding."""
FOLLOWED = TRANSFERS | {
    "stablehlo.broadcast_in_dim",
    "stablehlo.convert",
    "stablehlo.reshape",
    "stablehlo.transpose",
}
"""Ops that need of what they take in only what is needed of what they make."""
CUT = frozenset({"stablehlo.slice", "stablehlo.dynamic_slice"})
UPDATE = "stablehlo.dynamic_update_slice"
LOOKED_UP = frozenset({"stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_gather"})
"""Of their first operand nobody knows how much they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A price that a law forbids: it is `priced` and has to be `least` or more."""

    law: str
    priced: float
    least: float

    @property
    def share(self) -> float:
        """The part of the least that is priced."""
        return self.priced / self.least


def cheaper(
    fewer: Evaluator, one: Sequence[Action], more: Evaluator, other: Sequence[Action]
) -> list[Breach]:
    """The figures that fall though there is more to do, of the same plan of two programs."""
    less, cost = fewer.cost(one), more.cost(other)
    pairs = (
        ("computation", less.compute, cost.compute),
        ("communication", less.communication, cost.communication),
        ("memory with room", less.room, cost.room),
        ("memory", less.peak, cost.peak),
        ("memory pressed", fewer.pressed_bytes(one), more.pressed_bytes(other)),
    )
    return [
        Breach(law=f"more work, {what}", priced=after, least=before)
        for what, before, after in pairs
        if after < before * (1.0 - SLACK)
    ]


def breaches(evaluator: Evaluator, state: Sequence[Action]) -> list[Breach]:
    """The laws that the price of a state breaks."""
    cost, bounds = evaluator.cost(state), Bounds(evaluator, state)
    seconds = bounds.moved_bytes() / evaluator.device.bandwidth
    held = bounds.held_bytes()
    checks = (
        Breach(law="what is moved once", priced=cost.compute, least=seconds),
        Breach(law="what is held, with room", priced=cost.room, least=held),
        Breach(law="what is held", priced=cost.peak, least=held),
        Breach(law="what is held, pressed", priced=evaluator.pressed_bytes(state), least=held),
    )
    return [one for one in checks if one.priced < one.least * (1.0 - SLACK)]


class Bounds:
    """What a program under a state has to move and to hold on one device."""

    def __init__(self, evaluator: Evaluator, state: Sequence[Action]) -> None:
        self._program = evaluator.analysis.program
        self._specs = Specs(resolve(evaluator, tuple(state)))
        self._sizes = {axis.name: axis.size for axis in evaluator.mesh.axes}
        self._needed = needed_parts(self._program)

    def moved_bytes(self) -> float:
        """Arguments that are read and results that are written, once."""
        program = self._program
        read = sum(self._read(argument.value) for argument in program.arguments)
        made = {program.sources[result.use]: result.use for result in program.results}
        return read + sum(
            written_part(program, value) * self._local(value, self._specs.use(use))
            for value, use in made.items()
        )

    def held_bytes(self) -> float:
        """Arguments and results, less the results that take over the buffer of an argument.

        An argument that is passed on, and what is a result twice, count once.
        """
        program = self._program
        taken = {argument.aliases for argument in program.arguments}
        held = {
            argument.value: self._local(argument.value, self._specs.value(argument.value))
            for argument in program.arguments
        }
        for number, result in enumerate(program.results):
            value = program.sources[result.use]
            if number not in taken:
                held.setdefault(value, self._local(value, self._specs.use(result.use)))
        return sum(held.values())

    def _read(self, value: int) -> float:
        whole = self._local(value, self._specs.value(value))
        starts, uses = self._program.readers
        parts = [
            part * min(whole, self._local(value, self._specs.use(use)))
            for use in uses[starts[value] : starts[value + 1]].tolist()
            if (part := self._needed.of_use(use)) > 0.0
        ]
        return max(parts, default=0.0)

    def _local(self, value: int, spec: Spec) -> float:
        program = self._program
        size = math.prod(program.shape(value)) * itemsize(program.dtype(value))
        return size / math.prod(self._sizes[axis] for axes in spec for axis in axes)


class Needed:
    """Which part of each value some op needs, at least, that does more than pass it on."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.part = [0.0] * program.values

    def of_use(self, use: int) -> float:
        """The part of its value that a use needs, by what is needed of what its op makes."""
        program = self._program
        op = program.user(use)
        kind, place = program.kind(op), use - program.uses_of(op).start
        if kind in FOLLOWED:
            return self._followed(op, place)
        if place == 0 and kind in CUT:
            return self._cut(op, program.sources[use])
        if place == 0 and kind == UPDATE:
            kept = self.part[program.values_of(op).start] - self._share(op, 1, program.sources[use])
            return max(kept, 0.0)
        return 0.0 if place == 0 and kind in LOOKED_UP else 1.0

    def _followed(self, op: int, place: int) -> float:
        """What is needed of what holds an operand: of a loop both in it and behind it."""
        made = self._program.values_of(op)
        count = len(self._program.uses_of(op))
        return max((self.part[one] for one in made[place::count]), default=0.0)

    def _cut(self, op: int, whole: int) -> float:
        """A slice in a loop is another one each time, as far as they go round."""
        program, made = self._program, self._program.values_of(op).start
        times = program.op_trips[op] / program.op_trips[program.makers[whole]]
        share = program.elements[made] / max(program.elements[whole], 1)
        return min(1.0, float(times) * share * self.part[made])

    def _share(self, op: int, place: int, whole: int) -> float:
        program = self._program
        part = program.sources[program.uses_of(op)[place]]
        return program.elements[part] / max(program.elements[whole], 1)


def needed_parts(program: Program) -> Needed:
    """By value the part that is needed, from the end of the program to its beginning.

    Loops go round: until nothing is added.
    """
    found = Needed(program)
    starts, uses = program.readers
    changed = True
    while changed:
        changed = False
        for value in range(program.values - 1, -1, -1):
            readers = uses[starts[value] : starts[value + 1]].tolist()
            part = max(map(found.of_use, readers), default=0.0)
            if part > found.part[value]:
                found.part[value], changed = part, True
    return found


def written_part(program: Program, value: int) -> float:
    """The part of a result that a program writes itself; of an argument passed on nothing."""
    op = program.makers[value]
    kind = program.kind(op)
    if kind in {ARGUMENT, "stablehlo.scatter"} | TRANSFERS:
        return 0.0
    if kind == "stablehlo.reshape":
        return written_part(program, program.sources[program.uses_of(op).start])
    if kind == UPDATE:
        part = program.sources[program.uses_of(op)[1]]
        return min(1.0, program.elements[part] / max(program.elements[value], 1))
    return 1.0
