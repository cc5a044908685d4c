"""What a compiler that runs out of memory computes again instead of keeping it.

XLA's HloRematerialization lets go of a value that is read much later, and computes it again right
before that. What it is computed of has to be there: arguments are, other values until they are read
for the last time. What follows another order of work (loops, updates) is not computed again. Of
products, whose operands have to be kept, and of what is made of them it frees a part: it stops
where it finds no order of work that needs less. A copy in another layout is made again of the
value, wherever that is still there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from toast.analysis.jit import entry
from toast.analysis.program import Floats, Ints, Program
from toast.analysis.records import record
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.arrays import ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.op_traits import Role

FUSIBLE, REDUCE, CONTRACTION = (int(role) for role in (Role.FUSIBLE, Role.REDUCE, Role.CONTRACTION))
ALWAYS = 1 << 62
"""A position behind every program."""


@record
class RootReads(NamedTuple):
    """What each root reads, uses from `read_start` on, and where its contractions start."""

    op: Ints
    read_start: Ints
    reads: Ints
    dot_start: Ints


class Gaps(NamedTuple):
    """Where a value is not needed though it is read later: positions from `first` to `last`.

    `part` of it is free over them.
    """

    value: Ints
    first: Ints
    last: Ints
    part: Floats


class Availability(NamedTuple):
    """Up to which position each value can be had without keeping more than is kept anyway.

    `again` is up to which it can be computed anew, -1 for what cannot, `multiplied` the same where
    products may be; `until` the later of the first and of where it is read for the last time.
    """

    again: Ints
    multiplied: Ints
    until: Ints


@entry
def _find_again(f: Any, roots: Any, products: bool, kept: Ints, again: Ints, until: Ints) -> None:
    """What each fusion makes can be made again while all that it reads can be had.

    `products` only while what they read is `kept`.
    """
    for number in range(len(roots.op)):
        op = roots.op[number]
        multiplies = roots.dot_start[number + 1] > roots.dot_start[number]
        repeated = f.role[op] == FUSIBLE or f.role[op] == REDUCE or f.role[op] == CONTRACTION
        if not repeated or (multiplies and not products):
            continue
        least = ALWAYS
        for k in range(roots.read_start[number], roots.read_start[number + 1]):
            source = f.source[roots.reads[k]]
            least = min(least, kept[source] if multiplies else until[source])
        for value in range(f.values[op], f.values[op + 1]):
            again[value] = least
            until[value] = max(until[value], least)


def availability(program: Program, fusion: Fusion, last: Ints) -> Availability:
    """Of each value, of which `last` is the position where it is read for the last time."""
    roots, kept = fusion.roots, last.copy()
    kept[program.constant] = ALWAYS
    kept[ints([argument.value for argument in program.arguments])] = ALWAYS
    read = RootReads(roots.ops, roots.read_start, roots.reads, roots.dot_start)
    again, multiplied = np.full(program.values, -1), np.full(program.values, -1)
    until = kept.copy()
    _find_again(fusion.flow, read, False, kept, again, until)
    _find_again(fusion.flow, read, True, kept, multiplied, kept.copy())
    return Availability(again=again, multiplied=multiplied, until=until)


def gaps_between(value: Ints, at: Ints, available: Ints) -> Gaps:
    """The gaps between the uses `at` positions of each `value`, a position or more wide.

    Those behind which the value is still `available`, by value.
    """
    order = np.lexsort((at, value))
    value, at = value[order], at[order]
    follows = value[1:] == value[:-1]
    wide = at[1:] - at[:-1] > 1
    there = available[value[1:]] >= at[1:]
    found = np.flatnonzero(follows & wide & there)
    first, last = at[found] + 1, at[found + 1] - 1
    return Gaps(value=value[found], first=first, last=last, part=np.ones(len(found)))


def widest(gaps: Gaps, last: Ints) -> tuple[Ints, Ints]:
    """The widest gap of each value: its first and last position.

    Where there is none, an empty one behind the `last` position of the value.
    """
    order = np.argsort(gaps.last - gaps.first, kind="stable")
    begins, ends = last + 1, last.copy()
    begins[gaps.value[order]], ends[gaps.value[order]] = gaps.first[order], gaps.last[order]
    return begins, ends


def recomputed_gaps(
    program: Program, fusion: Fusion, first: Ints, read_at: Ints, kept: Bools, had: Availability
) -> Gaps:
    """The gaps of the `kept` values, made at `first`, behind which they can be computed again.

    `read_at` is by op the position at which the fusion that it is the root of reads.
    """
    roots, rules = fusion.roots, fusion.profile.rematerialization
    read = program.use_value[roots.reads]
    at = read_at[roots.ops][roots.rows(roots.read_start)]
    made = np.flatnonzero(kept)
    chosen = kept[read]
    found = gaps_between(
        np.concatenate([made, read[chosen]]),
        np.concatenate([first[made], at[chosen]]),
        np.maximum(had.again, had.multiplied),
    )
    light = had.again[found.value] > found.last
    unmade = found.first == first[found.value] + 1
    return found._replace(first=found.first - unmade, part=np.where(light, 1.0, rules.products))
