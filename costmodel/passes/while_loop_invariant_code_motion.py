"""What a loop makes of what it never changes is made once, before the loop.

As the weights of gates that every step of a recurrent net concatenates, casts of them, and sums of
them. A TPU's compiler moves all of it out, and then takes back what is spread elementwise from
something smaller: masks, or a matrix to which a row is added. In the loop that is computed where it
is read. What is made of constants alone never leaves, nor does a scatter to whose result the loop
adds: it starts from what is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from toast.analysis.program import LOOP_BEGIN, LOOP_END, Floats, Ints, Program
from toast.costmodel.compilers.rules import WhileLoopInvariantCodeMotionRules
from toast.costmodel.passes.all_reduce_reassociate import ADD, SCATTER
from toast.costmodel.program.arrays import ints
from toast.costmodel.program.buffers import loop_slots
from toast.costmodel.program.op_traits import LAYOUT, Role, is_priced_elsewhere, role

_PLACING = frozenset(
    f"stablehlo.{name}" for name in ("concatenate", "dynamic_slice", "gather", "pad")
)
"""Ops that are fused and yet make no element of the elements in its place."""
_HANDING_ON = (LAYOUT - {"stablehlo.convert"}) | {"stablehlo.slice", "stablehlo.reverse"}
"""Ops that do not move by themselves."""
_MOVING = frozenset({Role.FUSIBLE, Role.REDUCE, Role.CONTRACTION, Role.UPDATE})
_MOVING_BESIDES = frozenset({"stablehlo.sort", "chlo.top_k"})
"""Ops that read their operands from memory, and move all the same."""


class _Made(IntEnum):
    """What a value that a loop never changes is made of."""

    OUTSIDE = 0
    """It is there before the loop, or moves there."""
    SPREAD = 1
    """It is made elementwise of something smaller: it stays in the loop."""
    CONSTANT = 2
    """It is made of constants alone, and stays."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """The ops at which a loop begins and ends, and what its body only passes on.

    `inits` are the initial values of what any loop passes on.
    """

    begin: int
    end: int
    passed_on: dict[int, _Made]
    inits: dict[int, int]


def move_out(program: Program, rules: WhileLoopInvariantCodeMotionRules) -> Program:
    """The program in which what moves out of a loop runs as often as the loop does."""
    if not rules.moves:
        return program
    trips = program.op_trips.copy()
    for loop in _loops(program):
        if trips[loop.begin] < trips[loop.begin + 1]:
            trips[_moving(program, loop, trips)] = trips[loop.begin]
    return program if (trips == program.op_trips).all() else replace(program, op_trips=trips)


def moved_out(program: Program) -> Iterator[tuple[Ints, int, int]]:
    """For each loop the ops that moved out of it, and where it begins and ends."""
    begins: list[int] = []
    for op in program.ops_named(LOOP_BEGIN, LOOP_END):
        if program.kind(op) == LOOP_BEGIN:
            begins.append(op)
            continue
        begin = begins.pop()
        moved = np.flatnonzero(program.op_trips[begin + 1 : op] < program.op_trips[begin + 1])
        yield moved + begin + 1, begin, op


def _loops(program: Program) -> list[_Loop]:
    """The loops of a program, inner loops first."""
    found: dict[int, _Loop] = {}
    inits: dict[int, int] = {}
    for slot in loop_slots(program):
        end = program.makers[slot.result]
        loop = found.setdefault(slot.begin, _Loop(slot.begin, end, {}, inits))
        if slot.yielded == slot.body:
            inits[slot.body] = slot.init
            constant = program.constant[slot.init]
            loop.passed_on[slot.body] = _Made.CONSTANT if constant else _Made.OUTSIDE
    return list(found.values())


def _moving(program: Program, loop: _Loop, trips: Floats) -> Ints:
    """The ops that move out of a loop: those worth it, and what is made for them alone."""
    here = np.flatnonzero(trips[loop.begin + 1 : loop.end] == trips[loop.begin + 1])
    known, moving, staying = dict(loop.passed_on), set(), []
    for op in (here + loop.begin + 1).tolist():
        made = _made(program, loop, known, op)
        if made is not None:
            known.update(dict.fromkeys(program.values_of(op), made))
            if made is _Made.OUTSIDE and program.kind(op) not in _HANDING_ON:
                moving.add(op)
            elif made is not _Made.CONSTANT:
                staying.append(op)
    starts, uses = program.readers
    for op in reversed(staying):
        read = [k for one in program.values_of(op) for k in uses[starts[one] : starts[one + 1]]]
        if read and all(program.user(use) in moving for use in read):
            moving.add(op)
    return ints(sorted(moving))


def _made(program: Program, loop: _Loop, known: dict[int, _Made], op: int) -> _Made | None:
    """What an op makes of what a loop never changes; None where it reads what changes."""
    kind, reads = program.kind(op), [program.sources[use] for use in program.uses_of(op)]
    made: set[_Made] = set()
    for read in reads:
        one = _of_operand(program, loop, known, read)
        if one is None:
            return None
        made.add(one)
    if not made or not _can_move(program, op):
        return None
    if made == {_Made.CONSTANT}:
        return _Made.CONSTANT
    elementwise = role(kind) is Role.FUSIBLE and kind not in _PLACING
    result = program.elements[program.values_of(op)[0]]
    grows = result > max(program.elements[read] for read in reads)
    spread = grows or _Made.SPREAD in made or any(_is_repeated(program, read) for read in reads)
    return _Made.SPREAD if elementwise and spread else _Made.OUTSIDE


def _can_move(program: Program, op: int) -> bool:
    """Whether an op has no effects, and is no scatter that starts from what is added to it."""
    kind = program.kind(op)
    if kind == SCATTER:
        starts, uses = program.readers
        (value,) = program.values_of(op)[:1]
        readers = uses[starts[value] : starts[value + 1]].tolist()
        return all(program.kind(program.user(use)) != ADD for use in readers)
    moves = role(kind) in _MOVING and not is_priced_elsewhere(kind)
    return moves or kind in _MOVING_BESIDES


def _of_operand(program: Program, loop: _Loop, known: dict[int, _Made], value: int) -> _Made | None:
    while value not in known and value in loop.inits:  # a loop inside this one passes it on
        value = loop.inits[value]
    if value in known or program.constant[value]:
        return known.get(value, _Made.CONSTANT)
    return _Made.OUTSIDE if program.makers[value] < loop.begin else None


def _is_repeated(program: Program, value: int) -> bool:
    """Whether a value is made of constants smaller than itself."""
    literal = bool(program.op_literal[program.makers[value]])
    return bool(program.constant[value]) and program.elements[value] > 1 and not literal
