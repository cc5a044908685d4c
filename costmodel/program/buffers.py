"""Values that share a buffer: what loops carry, and what is updated in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import LOOP_BEGIN, LOOP_END, Ints, Program
from toast.costmodel.program.op_traits import CHEAP, Role, role


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One value that a loop carries, at each of its places."""

    begin: int
    init: int
    condition: int
    body: int
    yielded: int
    result: int


def loop_slots(program: Program) -> Iterator[Slot]:
    """The slots of every loop, inner loops first."""
    open_loops: list[int] = []
    for op in program.ops_named(LOOP_BEGIN, LOOP_END):
        if program.kind(op) == LOOP_BEGIN:
            open_loops.append(op)
        else:
            begin = open_loops.pop()
            carried = len(program.uses_of(begin))
            inside, results = program.values_of(begin), program.values_of(op)
            for k in range(carried):
                yield Slot(
                    begin=begin,
                    init=program.sources[program.uses_of(begin)[k]],
                    condition=inside[k],
                    body=inside[carried + k],
                    yielded=program.sources[program.uses_of(op)[k]],
                    result=results[k],
                )


def carried_constants(program: Program) -> dict[int, int]:
    """What loops only pass on, and the constant it is: inside them compilers make that anew."""
    return {
        value: slot.init
        for slot in loop_slots(program)
        if program.constant[slot.init] and slot.yielded == slot.body
        for value in (slot.condition, slot.body)
    }


class Buffers:
    """Which values live in one buffer; `last` is the position of each value's last use.

    A loop's condition, body argument and result share one. Its initial value does when it is not
    needed afterwards, or when the loop only passes it on; what the body yields does when it was
    made by updating the carried buffer, or by arithmetic that alone reads that: it is written over.
    Outside loops an update takes over a buffer that dies.
    """

    def __init__(self, program: Program, last: Ints) -> None:
        self._program = program
        self._last = last
        self._parent: dict[int, int] = {}
        self._arguments = {argument.value for argument in program.arguments}
        self._updates = _updated(program)
        self._uses = np.bincount(program.use_value, minlength=program.values).tolist()
        self._join_updates()
        for slot in loop_slots(program):
            self._join_slot(slot)

    def of(self, value: int) -> int:
        """The value that stands for the buffer of `value`."""
        while self._parent.get(value, value) != value:
            value = self._parent[value]
        return value

    def owners(self) -> Ints:
        """The same for every value."""
        found = np.arange(self._program.values)
        for value in self._parent:
            found[value] = self.of(value)
        return found

    def _join(self, left: int, right: int) -> None:
        """Arguments stand for their buffers, whose memory is counted throughout.

        Constants never do: they are laid out as whatever is written over them.
        """
        a, b = self.of(left), self.of(right)
        if a != b:
            swap = b in self._arguments or bool(self._program.constant[a])
            keep, drop = (b, a) if swap else (a, b)
            self._parent[drop] = keep

    def _join_updates(self) -> None:
        for result, target in self._updates.items():
            dies = self._last[target] <= self._program.value_op[result]
            if dies and target not in self._arguments:
                self._join(target, result)

    def _join_slot(self, slot: Slot) -> None:
        passed_on = slot.yielded == slot.body
        self._join(slot.body, slot.condition)
        self._join(slot.body, slot.result)
        dies = self._last[slot.init] <= slot.begin and slot.init not in self._arguments
        if passed_on or dies:
            self._join(slot.init, slot.body)
        if self._updates_of(slot.yielded) == slot.body or self._is_written_over(slot):
            self._join(slot.body, slot.yielded)

    def _is_written_over(self, slot: Slot) -> bool:
        program, maker = self._program, self._program.makers[slot.yielded]
        reads = [program.sources[use] for use in program.uses_of(maker)]
        alone = slot.body in reads and self._uses[slot.body] == 1
        same = _kind(program, slot.body) == _kind(program, slot.yielded)
        return alone and program.kind(maker) in CHEAP and same

    def _updates_of(self, value: int) -> int:
        """The buffer that a chain of updates began with."""
        while value in self._updates:
            value = self._updates[value]
        return value


def _updated(program: Program) -> dict[int, int]:
    """For each value made by an update in place, the value whose buffer it updates."""
    updates = {name for name in program.names if role(name) is Role.UPDATE}
    return {
        program.values_of(op)[0]: program.sources[program.uses_of(op).start]
        for op in program.ops_named(*updates)
        if len(program.values_of(op)) == 1
    }


def reusing_results(program: Program) -> dict[int, int]:
    """Values returned in the buffer of a donated argument, and the value of that."""
    values = [program.sources[result.use] for result in program.results]
    given = {argument.aliases: argument.value for argument in program.arguments}
    reused = {values[index]: value for index, value in given.items() if index >= 0}
    free: dict[tuple[int, int], list[int]] = {}
    kinds = [_kind(program, value) for value in values]
    for index in range(len(values) - 1, -1, -1):
        if index not in given:
            free.setdefault(kinds[index], []).append(index)
    for argument in program.arguments:
        kind = _kind(program, argument.value)
        if argument.donated and argument.aliases < 0 and free.get(kind):
            reused[values[free[kind].pop()]] = argument.value
    return reused


def loop_copies(program: Program) -> dict[int, list[int]]:
    """Results of loops that are copied to an argument's buffer behind the loop, by its end.

    The loop, or what follows, reads the argument, so what it makes is in a buffer of its own.
    """
    slots = list(loop_slots(program))
    if not slots:
        return {}
    reused = reusing_results(program)
    last = dict(zip(program.sources, program.users, strict=True))
    found: dict[int, list[int]] = {}
    for slot in slots:
        argument = reused.get(slot.result, slot.init)
        if argument != slot.init and last.get(argument, -1) >= slot.begin:
            found.setdefault(program.makers[slot.result], []).append(slot.result)
    return found


def _kind(program: Program, value: int) -> tuple[int, int]:
    """Equal for values of one shape and type."""
    return int(program.value_shape[value]), int(program.value_type[value])
