"""Which partial sums a loop only adds to what it carries: devices sum them once behind it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from toast.analysis.program import LOOP_END, Program
from toast.analysis.types import itemsize
from toast.costmodel.compilers.rules import WhileLoopAllReduceMotionRules
from toast.costmodel.passes.all_reduce_reassociate import ADD
from toast.costmodel.program.buffers import Slot, loop_slots

Behind = tuple[float, float]
"""(runs of the loop, bytes that it adds up relative to those that the op makes)."""
HERE: Behind = (1.0, 1.0)
"""That of sums that no loop adds up."""

_CUT = "stablehlo.slice"
_PASSED = frozenset({"stablehlo.convert", "stablehlo.reshape", "stablehlo.transpose"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSum:
    """What a loop adds in one `slot`: the result of an op, or the part of it that is `cut` out.

    `path` has the uses from that result to the loop's end, each of what the one before it makes.
    `cut` is the use by the slice that cuts a part out, or -1.
    """

    slot: Slot
    path: tuple[int, ...]
    cut: int


def move_sums(program: Program, rules: WhileLoopAllReduceMotionRules) -> dict[int, Behind]:
    """The ops whose results a loop adds to values that it carries, and uses nowhere else."""
    found: dict[int, Behind] = {}
    if not rules.moves:
        return found
    trips = program.op_trips.tolist()
    for maker, parts in added_sums(program).items():
        made, carried = program.values_of(maker)[0], parts[0].slot.body
        share = sum(program.elements[one.slot.body] for one in parts) / program.elements[made]
        if rules.sums_carried:
            share *= itemsize(program.dtype(carried)) / itemsize(program.dtype(made))
        found[maker] = (trips[maker] / trips[parts[0].slot.begin], share)
    return found


def added_sums(program: Program) -> dict[int, list[AddedSum]]:
    """The ops whose results a loop only adds up, each with what it adds to what.

    As the gradients of weights that every iteration reads, and those of batch after batch. Nothing
    but the sum may read the carried value, and nothing but the loop's end the sum; XLA looks for
    one addition on the way there, and moves sums out of one loop. Gradients of weights that were
    joined are cut, and each part is added to a value of its own.
    """
    if LOOP_END not in program.names:
        return {}
    reads = np.bincount(program.use_value, minlength=program.values).tolist()
    found: dict[int, list[AddedSum]] = {}
    for slot in loop_slots(program):
        added = _added(program, slot, reads)
        if added is not None:
            maker = program.makers[program.sources[added.path[0]]]
            found.setdefault(maker, []).append(added)
    return {op: parts for op, parts in found.items() if _is_whole(program, parts, reads)}


def _added(program: Program, slot: Slot, reads: list[int]) -> AddedSum | None:
    """What the loop adds to a value that it carries, if one op of it makes that."""
    total = program.makers[slot.yielded]
    if program.kind(total) != ADD or not reads[slot.yielded] == reads[slot.body] == 1:
        return None
    added = [use for use in program.uses_of(total) if program.sources[use] != slot.body]
    if len(added) != 1:
        return None
    path, cut = [*added, _reader(program, slot.yielded)], -1
    while reads[program.sources[path[0]]] == 1 or path[0] == cut:
        maker = program.makers[program.sources[path[0]]]
        cuts = cut < 0 and program.kind(maker) == _CUT
        if not cuts and not _only_moves(program, maker):
            inside = program.op_trips[maker] == program.op_trips[total] and maker > slot.begin
            alone = inside and len(program.values_of(maker)) == 1
            return AddedSum(slot=slot, path=tuple(path), cut=cut) if alone else None
        path.insert(0, program.uses_of(maker)[0])
        cut = path[0] if cuts else cut
    return None


def _is_whole(program: Program, parts: list[AddedSum], reads: list[int]) -> bool:
    """Whether one loop adds up all that is read of what an op makes."""
    (cut, *_), loops = (one.cut for one in parts), {one.slot.begin for one in parts}
    return len(loops) == 1 and (cut < 0 or len(parts) == reads[program.sources[cut]])


def _reader(program: Program, value: int) -> int:
    """The first use of a value."""
    starts, uses = program.readers
    return int(uses[starts[value]])


def _only_moves(program: Program, op: int) -> bool:
    """Whether an op keeps the elements of what it reads, as one that sums dimensions of 1."""
    if program.kind(op) in _PASSED:
        return True
    if program.kind(op) != "stablehlo.reduce" or len(program.values_of(op)) != 1:
        return False
    source, (made,) = program.sources[program.uses_of(op)[0]], program.values_of(op)
    return prod(program.shape(source)) == prod(program.shape(made))
