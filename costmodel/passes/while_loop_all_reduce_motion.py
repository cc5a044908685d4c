"""Which partial sums a loop only adds to what it carries: devices sum them once behind it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from toast.analysis.program import LOOP_END, Program
from toast.analysis.types import itemsize
from toast.costmodel.compilers.rules import WhileLoopAllReduceMotionRules
from toast.costmodel.passes.all_reduce_reassociate import ADD
from toast.costmodel.program.buffers import Slot, loop_slots

Behind = tuple[float, float]
"""(runs of the loop, how wide elements are where they are added up, relative to the op's own)."""
HERE: Behind = (1.0, 1.0)
"""That of sums that no loop adds up."""

_PASSED = frozenset({"stablehlo.convert", "stablehlo.reshape", "stablehlo.transpose"})


def move_sums(program: Program, rules: WhileLoopAllReduceMotionRules) -> dict[int, Behind]:
    """The ops whose results a loop adds to a value that it carries, and uses nowhere else."""
    found: dict[int, Behind] = {}
    if not rules.moves:
        return found
    trips = program.op_trips.tolist()
    for maker, slot in added_sums(program).items():
        value = program.values_of(maker)[0]
        wide = itemsize(program.dtype(slot.body)) / itemsize(program.dtype(value))
        wide = wide if rules.sums_carried else 1.0
        found[maker] = (trips[maker] / trips[slot.begin], wide)
    return found


def added_sums(program: Program) -> dict[int, Slot]:
    """The ops whose results a loop only adds up, each with what it adds them to.

    As the gradients of weights that every iteration reads, and those of batch after batch. Nothing
    but the sum may read the carried value, and nothing but the loop's end the sum; XLA looks for
    one addition on the way there, and moves sums out of one loop.
    """
    if LOOP_END not in program.names:
        return {}
    once = (np.bincount(program.use_value, minlength=program.values) == 1).tolist()
    slots = ((_added(program, slot, once), slot) for slot in loop_slots(program))
    return {maker: slot for maker, slot in slots if maker >= 0}


def path_to(program: Program, value: int, last: int) -> Iterator[int]:
    """Values from one on, each made of the one before, which nothing else reads."""
    starts, uses = program.readers
    yield value
    while value != last:
        (value,) = program.values_of(program.user(int(uses[starts[value]])))
        yield value


def _added(program: Program, slot: Slot, once: list[bool]) -> int:
    """The op whose result the loop adds to what it carries, or -1."""
    total = program.makers[slot.yielded]
    if program.kind(total) != ADD or not (once[slot.yielded] and once[slot.body]):
        return -1
    operands = [program.sources[use] for use in program.uses_of(total)]
    if slot.body not in operands:
        return -1
    value = operands[1 - operands.index(slot.body)]
    while once[value] and _only_moves(program, program.makers[value]):
        value = program.sources[program.uses_of(program.makers[value])[0]]
    maker = program.makers[value]
    inside = program.op_trips[maker] == program.op_trips[total] and maker > slot.begin
    alone = once[value] and len(program.values_of(maker)) == 1
    return maker if inside and alone else -1


def _only_moves(program: Program, op: int) -> bool:
    """Whether an op keeps the elements of what it reads, as one that sums dimensions of 1."""
    if program.kind(op) in _PASSED:
        return True
    if program.kind(op) != "stablehlo.reduce" or len(program.values_of(op)) != 1:
        return False
    source, (made,) = program.sources[program.uses_of(op)[0]], program.values_of(op)
    return prod(program.shape(source)) == prod(program.shape(made))
