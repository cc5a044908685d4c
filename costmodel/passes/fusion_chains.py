"""Kernels that follow values from op to op: what is stored behind products, when results are made.

`fusion`, `liveness` and `addends` say what each is about.
"""

from __future__ import annotations

from typing import Any

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import Role

NOTHING, FUSIBLE, REDUCE, CONTRACTION = (
    int(role) for role in (Role.NOTHING, Role.FUSIBLE, Role.REDUCE, Role.CONTRACTION)
)

NEVER = 1 << 62
"""More ops than read any value."""


@inner
def _following(f: Any, value: int) -> int:
    """What the only user makes of a value, where that is elementwise and of one size; or -1."""
    first, end = f.reader_start[value], f.reader_start[value + 1]
    if first == end:
        return -1
    op = f.user[f.reader[first]]
    made = f.values[op]
    alone = f.user[f.reader[end - 1]] == op and f.values[op + 1] - made == 1
    if not alone or f.role[op] != FUSIBLE or f.elements[made] != f.elements[value]:
        return -1
    return int(made)


@inner
def _is_reduced(f: Any, value: int, fewest: int) -> bool:
    """Whether a reduction reads a value, and with others at least so many ops."""
    users, last, reduces = 0, -1, False
    for k in range(f.reader_start[value], f.reader_start[value + 1]):
        op = f.user[f.reader[k]]
        users += op != last
        last = op
        reduces |= f.role[op] == REDUCE
    return bool(reduces and users >= fewest)


@inner
def _is_summed_up(f: Any, value: int, reduces: Bools) -> bool:
    """Whether one reduction is all that reads a value."""
    first, end = f.reader_start[value], f.reader_start[value + 1]
    op = f.user[f.reader[first]] if first < end else -1
    return bool(op >= 0 and reduces[op] and f.user[f.reader[end - 1]] == op)


@entry
def store_chains(
    f: Any, fewest: int, narrow: bool, reduces: Bools, cutting: Bools, taken: Bools, stored: Bools
) -> None:
    """Mark where the chain behind each contraction is `stored`; `taken` is a working array.

    As a reduction reads it where at least the `fewest` read it, but, if `narrow`, before it is only
    widened; else where it is narrowest if `narrow`, or as the contraction makes it. Nowhere if one
    op that `reduces` is all that reads it. A contraction of which a slice is made (`cutting`) makes
    that.
    """
    for op in range(len(f.role)):
        if f.role[op] != CONTRACTION:
            continue
        first = f.values[op]
        reader = f.reader_start[first]
        if reader < f.reader_start[first + 1] and cutting[f.user[f.reader[reader]]]:
            first = f.values[f.user[f.reader[reader]]]
        last, narrowest, end, light = first, first, first, True
        while True:
            following = _following(f, last)
            if following < 0 or taken[following]:
                break
            taken[following] = True
            last = following
            moved = f.layout[f.maker[last]]
            light &= moved
            if not moved or f.bytes[last] <= f.bytes[end]:
                end = last
            if f.bytes[last] <= f.bytes[narrowest]:
                narrowest = last
        if _is_summed_up(f, last, reduces):
            continue
        if not light and _is_reduced(f, last, fewest):
            stored[end] = True
        else:
            stored[narrowest if narrow else first] = True


PRODUCT, REDUCTION, ANOTHER = 1, 2, 4


@entry
def narrow_values(
    f: Any, moving: Bools, rounding: Bools, written: Bools, single: Bools, readers: Ints,
    narrow: Bools,
) -> None:  # fmt: skip
    """Mark the written values of `single` precision that products read, and else reductions only.

    `rounding` ops can round what they make.

    `readers` are the kinds of what reads each value, looking through ops that are `moving` it.
    """
    for op in range(len(f.role) - 1, -1, -1):
        for value in range(f.values[op], f.values[op + 1]):
            seen = 0
            for k in range(f.reader_start[value], f.reader_start[value + 1]):
                user = f.user[f.reader[k]]
                moved = f.values[user]
                if moving[user] and f.values[user + 1] - moved == 1 and not written[moved]:
                    seen |= readers[moved]
                elif f.role[user] == CONTRACTION:
                    seen |= PRODUCT
                else:
                    seen |= REDUCTION if f.role[user] == REDUCE else ANOTHER
            readers[value] = seen
            if written[value] and single[value] and rounding[op]:
                narrow[value] = seen & PRODUCT != 0 and seen & ANOTHER == 0


@entry
def reach_products(f: Any, moving: Bools, carried: Ints, alone: Bools, found: Bools) -> None:
    """Mark the uses (`found`) of which products alone read what is made, once it was moved.

    By `moving` ops, or by loops: `carried` has by use what it is in the body of a loop that only
    passes it on, and behind that, or -1. `alone` by value is a working array.
    """
    for op in range(len(f.role) - 1, -1, -1):
        for value in range(f.values[op], f.values[op + 1]):
            alone[value] = True
            for k in range(f.reader_start[value], f.reader_start[value + 1]):
                use = f.reader[k]
                user, inside = f.user[use], carried[use, 0]
                if f.role[user] == CONTRACTION:
                    found[use] = True
                elif inside >= 0:
                    found[use] = alone[inside] and alone[carried[use, 1]]
                elif moving[user] and f.values[user + 1] - f.values[user] == 1:
                    found[use] = alone[f.values[user]]
                alone[value] &= found[use]


@inner
def _is_light(f: Any, op: int) -> bool:
    """Whether an op is elementwise or a reduction, or returns results."""
    returns = f.values[op] == f.values[op + 1]
    return bool(returns or f.role[op] == FUSIBLE or f.role[op] == REDUCE)


@entry
def keep_updates(f: Any, early: Bools, worked: Bools) -> None:
    """Of values that are `early` keep updates, of which nothing but results is made.

    That is by elementwise ops and reductions alone. Updates are themselves made so of products,
    lookups or loops, or are one number. `worked` by value (False) is a working array.
    """
    for op in range(len(f.role) - 1, -1, -1):
        light = _is_light(f, op)
        for value in range(f.values[op], f.values[op + 1]):
            light &= early[value]
        for use in range(f.uses[op], f.uses[op + 1]):
            early[f.source[use]] &= light
    for op in range(len(f.role)):
        heavy = f.role[op] != NOTHING and not _is_light(f, op)
        for use in range(f.uses[op], f.uses[op + 1]):
            heavy |= worked[f.source[use]]
        for value in range(f.values[op], f.values[op + 1]):
            worked[value] = heavy
            early[value] &= _is_light(f, op) and (heavy or f.elements[value] == 1.0)


@entry
def run_early(
    f: Any, ops: Ints, starts: Ints, reads: Ints, dot_starts: Ints, dots: Ints,
    early: Bools, position: Ints,
) -> None:  # fmt: skip
    """What is `early` runs as soon as what its fusion reads, and its own products, can be there."""
    for number in range(len(ops)):
        op, latest = ops[number], -1
        all_early = f.values[op + 1] > f.values[op]
        for value in range(f.values[op], f.values[op + 1]):
            all_early &= early[value]
        if not all_early:
            continue
        for k in range(starts[number], starts[number + 1]):
            latest = max(latest, position[f.maker[f.source[reads[k]]]])
        for k in range(dot_starts[number], dot_starts[number + 1]):
            latest = max(latest, dots[k] if dots[k] != op else -1)
        if starts[number + 1] > starts[number]:
            position[op] = latest


@inner
def _is_added(f: Any, op: int, use: int, sums: Bools) -> bool:
    """Whether what is read through a use goes into an op's result by sums alone."""
    at = f.user[use]
    while at != op and sums[at]:
        made = f.values[at]
        first = f.reader_start[made]
        if f.reader_start[made + 1] - first != 1:
            return False
        at = f.user[f.reader[first]]
    return bool(at == op and sums[op])


@entry
def mark_added(
    f: Any, ops: Ints, starts: Ints, reads: Ints, some: Bools, sums: Bools, added: Bools
) -> None:
    """Mark the reads of `some` fusions of what they do nothing with but add it to their result."""
    for number in range(len(ops)):
        if not some[number]:
            continue
        for k in range(starts[number], starts[number + 1]):
            added[k] = _is_added(f, ops[number], reads[k], sums)
        for k in range(starts[number], starts[number + 1]):
            for other in range(starts[number], starts[number + 1]):
                same = f.source[reads[k]] == f.source[reads[other]]
                added[k] &= not same or _is_added(f, ops[number], reads[other], sums)


@entry
def hand_over(
    f: Any, ops: Ints, starts: Ints, reads: Ints, position: Ints, kept: Bools, narrow: Bools,
    first: Ints, last: Ints, ends: Ints, stamp: Ints,
) -> None:  # fmt: skip
    """Let results take buffers of what is read last at `ops`, one each: these end a moment before.

    Not of what is `kept`, or `narrow` where the other is not. `stamp` by value (-1) is a working
    array.
    """
    for number in range(len(ops)):
        op = ops[number]
        at = position[op]
        for value in range(f.values[op], f.values[op + 1]):
            found = -1
            for k in range(starts[number], starts[number + 1]):
                source = f.source[reads[k]]
                if kept[source] or stamp[source] == number or (0 <= found <= source):
                    continue
                dies = first[source] < last[source] and last[source] == at
                same = f.shape[source] == f.shape[value] and f.dtype[source] == f.dtype[value]
                same &= narrow[source] == narrow[value]
                if dies and same:
                    found = source
            if found >= 0:
                ends[found] = at - 1
                stamp[found] = number


@inner
def _join(f: Any, op: int, once: Bools, head: Ints, after: Ints) -> int:
    """Make one list of the sums of an op's operands; the first of it."""
    found = -1
    for use in range(f.uses[op], f.uses[op + 1]):
        if not _is_joined(f, op, use, once, head):
            continue
        maker = f.maker[f.source[use]]
        leaf = head[maker]
        while leaf >= 0:
            following = after[leaf]
            after[leaf] = found
            found = leaf
            leaf = following
        head[maker] = -1
    return found


@entry
def lead(head: Ints, after: Ints, some: Bools, leader: Ints) -> None:
    """Name the first of `some` in each list of sums for all others of them."""
    for op in range(len(head)):
        least, leaf = -1, head[op]
        while leaf >= 0:
            if some[leaf] and (least < 0 or leaf < least):
                least = leaf
            leaf = after[leaf]
        leaf = head[op]
        while leaf >= 0:
            if some[leaf] and leaf != least:
                leader[leaf] = least
            leaf = after[leaf]


@entry
def add_up(
    f: Any, sums: Bools, adds: Bools, moves: Bools, across: bool, once: Bools, head: Ints,
    after: Ints,
) -> None:  # fmt: skip
    """List those of `sums` that are only added to each other; `across`: whatever is added besides.

    What `moves` a sum is looked through. `head` by op (-2: none of it) is the first of its list of
    sums, which go on with `after`.
    """
    for op in range(len(f.role)):
        if sums[op]:
            head[op], after[op] = op, -1
            continue
        if not (adds[op] or moves[op]) or f.values[op + 1] - f.values[op] != 1:
            continue
        operands, joined = f.uses[op + 1] - f.uses[op], 0
        for use in range(f.uses[op], f.uses[op + 1]):
            joined += _is_joined(f, op, use, once, head)
        several = moves[op] and operands != 1
        if joined > 0 and not several and (across or joined == operands):
            head[op] = _join(f, op, once, head, after)


@inner
def _is_joined(f: Any, op: int, use: int, once: Bools, head: Ints) -> bool:
    value = f.source[use]
    maker = f.maker[value]
    return bool(head[maker] != -2 and once[value] and f.trips[maker] == f.trips[op])


@entry
def compute_inside(f: Any, written: Bools, passing: Bools, computed: Bools) -> None:
    """Mark the values that arithmetic makes inside their readers.

    What is only passed on, by a `passing` op, comes from where its first operand does.
    """
    for op in range(len(f.role)):
        arithmetic = not passing[op]
        if not arithmetic and f.uses[op + 1] > f.uses[op]:
            arithmetic = computed[f.source[f.uses[op]]]
        for value in range(f.values[op], f.values[op + 1]):
            computed[value] = arithmetic and not (written[value] or f.constant[value])
