"""Which buffer each stored value has, and when it is alive over the schedule of fusions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.all_reduce_reassociate import ADD
from toast.costmodel.passes.blocked_images import kept_in_blocks
from toast.costmodel.passes.constant_folding import constants_of
from toast.costmodel.passes.fusion import Fusion, fused_into_update
from toast.costmodel.passes.fusion_chains import hand_over, mark_added
from toast.costmodel.passes.fusion_kernel import spread_spans
from toast.costmodel.passes.grouped_images import kept_in_groups
from toast.costmodel.passes.layout_assignment import (
    Beside,
    OtherLayouts,
    copied_beside,
    lies,
)
from toast.costmodel.passes.rematerialization import availability, recomputed_gaps
from toast.costmodel.passes.row_layouts import RowLayouts, Span
from toast.costmodel.passes.scatter_fusion import NOT_ADDED, sum_tensors
from toast.costmodel.passes.while_loop_invariant_code_motion import moved_out
from toast.costmodel.program.arrays import flags, floats, ints, spans
from toast.costmodel.program.buffers import Buffers
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.lookups import (
    BLOCKED,
    COPIED,
    GIVEN,
    LEFT,
    TILED,
    TURNED,
    UNCUT,
    WHOLE,
)
from toast.costmodel.program.op_traits import Role
from toast.costmodel.program.sharding_units import Layouts

WRITE = "stablehlo.dynamic_update_slice"
SUMS = frozenset({ADD, "stablehlo.convert"})
"""What adds to a product, and nothing else."""


CONSTANT = {"lies": WHOLE, "inner": False}
"""How a constant of the program lies: in main memory alone, as it is copied there before a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRanges:
    """What is in memory besides arguments, over the positions [first, last].

    By the `value` that stands for each, with its tensor. `width` is the part of its bytes that is
    stored, `lies` how in memory (see `lookups`); `inner` tells that it is no result of the program.
    `again` tells that a row is no memory, but a span over which another row's can be let go of, the
    `part` of it that is free then; 1 for all other rows. `unsummed` is a product but for whose sum
    over devices a row is not there, or -1; `within` the tensor of a sum of rows inside which it may
    be made, and is not there, or -1.
    """

    value: Ints
    tensor: Ints
    first: Ints
    last: Ints
    width: Floats
    part: Floats
    lies: Ints
    inner: Bools
    again: Bools
    unsummed: Ints
    within: Ints


SAME = {
    "width": 1.0,
    "part": 1.0,
    "lies": TILED,
    "inner": False,
    "again": False,
    "unsummed": -1,
    "within": NOT_ADDED,
}
"""What most rows of `LiveRanges` have in common."""


def live_rows(value: Ints, tensor: Ints, first: Ints, last: Ints, **columns: Any) -> LiveRanges:
    """Rows with these `columns` of `LiveRanges`; what is not given is the same for all (`SAME`)."""
    others = {name: np.full(len(value), column) for name, column in (SAME | columns).items()}
    return LiveRanges(value=value, tensor=tensor, first=first, last=last, **others)


class Buffered(NamedTuple):
    """Live `ranges`; by value what stands for its buffer (`owner`).

    `until` is by value up to which position it can be had, as in `Availability`.
    """

    ranges: LiveRanges
    owner: Ints
    until: Ints


def buffer_ranges(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    reused: dict[int, int],
    others: OtherLayouts,
    in_rows: RowLayouts,
    within: Ints,
) -> Buffered:
    """Buffers, then what is copied for the way that elements lie in memory.

    A result that takes over a donated argument's buffer (`reused`) has no memory of its own.
    What lies row by row is copied there, or from there (`in_rows`). What may be made inside a sum
    of rows has that sum (`within`). Results lie as arguments do: what is computed otherwise, as
    images are by convolutions, is copied.
    """
    inside = stored_inside(program, fusion)
    begun, read = value_spans(program, fusion)
    owner, values, first, last, alone = _buffer_spans(program, fusion, reused, begun, read)
    arguments = [argument.value for argument in program.arguments]
    constants = constants_of(program, fusion.profile.constant_folding)
    own = ~(flags(program.values, [*arguments, *reused]) | inside | constants.made)[values]
    values, first, last, alone = values[own], first[own], last[own], alone[own]
    width = np.where(fusion.wide, 2.0, np.where(fusion.narrow, 0.5, 1.0))
    lying, sums = lies(program, fusion), sum_tensors(layouts, within)

    def rows(value: Ints, first: Ints, last: Ints, **columns: Any) -> LiveRanges:
        given = {"width": width[value], "lies": lying[value], "inner": True, "within": sums[value]}
        given |= columns
        return live_rows(value, layouts.value_tensor[value], first, last, **given)

    until, product = _read_by_products(program, fusion, read)
    returned = last == program.ops
    results, used = alone & returned & (lying[values] == TILED), _last_reads(program, fusion, begun)
    waits = alone & (last == read[values]) & (until[values] < last)
    shorter = np.where(waits, np.maximum(first, until[values]), last)
    longer, guard = values[waits], np.full(program.values, -1)
    guard[longer] = product[longer]
    beside, begins, ends, part = _columns(copied_beside(program, fusion, others))
    tables, lookup, update = _columns_of(in_rows.held)
    rounded = np.where(np.isin(tables, [*in_rows.rounded]), 0.5, 1.0)
    turned, summed, added = _columns_of(in_rows.columns)
    launched = launched_at(program, fusion)
    start, needed = np.zeros_like(constants.stored), _last_read(program, fusion, constants.readers)
    images, appear, vanish, forms = _columns(kept_in_blocks(program, fusion, launched, read))
    made_for = ints([program.values_of(op)[0] for op in fusion.cut])
    at = fusion.position[program.value_op[made_for]]
    buffers = joined(
        rows(values, first, shorter, inner=~returned, lies=np.where(results, GIVEN, lying[values])),
        rows(values[results], first[results], used[values[results]], lies=COPIED),
        rows(longer, shorter[waits] + 1, last[waits], unsummed=guard[longer]),
        rows(beside, begins, ends, width=part),
        rows(tables, lookup, update, width=rounded, lies=TURNED),
        rows(turned, summed, added, lies=LEFT),
        rows(images, appear, vanish, width=forms, lies=BLOCKED),
        rows(made_for, at, at, lies=UNCUT),
        *(
            rows(*span, width=times, lies=how, again=again)
            for (how, again), found in kept_in_groups(program, fusion, launched).items()
            for *span, times in [_columns(found)]
        ),
        rows(constants.stored, start, needed, width=constants.width, **CONSTANT),
    )
    had = availability(program, fusion, read)
    if fusion.profile.rematerialization.recomputes:
        kept = flags(program.values, values[alone])
        gaps = recomputed_gaps(program, fusion, begun, launched, kept, had)
        free = {"part": gaps.part, "inner": False, "again": True, "unsummed": guard[gaps.value]}
        buffers = joined(buffers, rows(gaps.value, gaps.first, gaps.last, **free))
    return Buffered(ranges=buffers, owner=owner, until=had.until)


def _last_read(program: Program, fusion: Fusion, readers: list[set[int]]) -> Ints:
    """The last position at which a fusion computes one of each of these sets of ops."""
    if not readers:
        return ints([])
    _, high = positions_of_ops(program, fusion, fusion.position)
    return ints([int(high[list(ops)].max()) for ops in readers])


def _columns(held: list[Beside]) -> tuple[Ints, Ints, Ints, Floats]:
    """Values, their first and last positions, and how many of their size are held."""
    values, parts = ints([value for value, _, _ in held]), floats([part for _, _, part in held])
    first, last = (ints([span[side] for _, span, _ in held]) for side in (0, 1))
    return values, first, last, parts


def joined(*parts: LiveRanges) -> LiveRanges:
    """The rows of one, and then of the others."""
    names = [column.name for column in fields(LiveRanges)]
    return LiveRanges(**{n: np.concatenate([getattr(one, n) for one in parts]) for n in names})


def _columns_of(rows: list[Span]) -> Iterator[Ints]:
    """Values, first and last positions."""
    return (ints([row[side] for row in rows]) for side in range(3))


def stored_inside(program: Program, fusion: Fusion) -> Bools:
    """Values that only the inside of a fusion holds."""
    return flags(program.values, fused_into_update(program, fusion))


def value_spans(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """First and last position of each value; results of `main` live to the end.

    What nothing but updates in place read is written where it belongs when it is made.
    """
    launched = launched_at(program, fusion)
    writes = named(program, frozenset({WRITE}))[program.use_op]
    written, other = (
        np.bincount(program.use_value[k], minlength=program.values) for k in (writes, ~writes)
    )
    moment = (written > 0) & (other == 0)
    first = np.where(moment, fusion.position[program.value_op], launched[program.value_op])
    last = _last_reads(program, fusion, first)
    last[program.use_value[ints([result.use for result in program.results])]] = program.ops
    for ops, begin, end in moved_out(program):
        made = np.isin(program.value_op, ops)
        first[made] = np.minimum(first[made], fusion.position[begin])
        last[made] = np.maximum(last[made], fusion.position[end])
    return first, last


def _last_reads(program: Program, fusion: Fusion, first: Ints) -> Ints:
    """By value, there from `first` on, the position of the last fusion that reads it."""
    roots, last = fusion.roots, first.copy()
    at = launched_at(program, fusion)[roots.ops][roots.rows(roots.read_start)]
    np.maximum.at(last, program.use_value[roots.reads], at)
    return last


def _read_by_products(program: Program, fusion: Fusion, read: Ints) -> tuple[Ints, Ints]:
    """Until when each value is read if products are made by themselves, and the last such product.

    One that devices sum is: what it is added to may come much later, as the gradient of the lookups
    in a table that is multiplied by as well. `read` by value is the position of its last use.
    """
    roots, flow, position = fusion.roots, fusion.flow, launched_at(program, fusion)
    single, row = np.diff(roots.dot_start) == 1, roots.rows(roots.read_start)
    dot = np.full(len(roots), -1)
    dot[single] = roots.dots[roots.dot_start[:-1][single]]
    sums = named(program, SUMS)
    some = single & sums[roots.ops] & (dot != roots.ops)
    added = np.zeros(len(roots.reads), dtype=np.bool_)
    mark_added(flow, roots.ops, roots.read_start, roots.reads, some, sums, added)
    alone = some[row] & ~added
    until, product = position[program.value_op], np.full(program.values, -1)
    source, at = program.use_value[roots.reads], position[roots.ops][row]
    np.maximum.at(until, source, np.where(alone, np.minimum(dot[row], at), at))
    last = alone & (at == read[source])
    product[source[last]] = dot[row][last]
    until[program.use_value[ints([result.use for result in program.results])]] = program.ops
    return np.where(product >= 0, until, read), product


def launched_at(program: Program, fusion: Fusion) -> Ints:
    """By op the position at which the fusion that it is the root of reads.

    A product that is part of a later fusion, as a gradient is of the update of its weights, is made
    when all that the fusion reads is there: what it is made of is then no longer needed.
    """
    found, roots = fusion.position.copy(), fusion.roots
    if not fusion.profile.buffer_assignment.multiplies_at_once:
        return found
    ready = np.full(len(roots.ops), -1)
    made = fusion.position[program.value_op[program.use_value[roots.reads]]] + 1
    np.maximum.at(ready, roots.rows(roots.read_start), made)
    np.maximum.at(ready, roots.rows(roots.dot_start), fusion.position[roots.dots])
    some = np.diff(roots.dot_start) > 0
    found[roots.ops[some]] = np.minimum(found[roots.ops[some]], ready[some])
    return found


def _buffer_spans(
    program: Program, fusion: Fusion, reused: dict[int, int], first: Ints, last: Ints
) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """By value what stands for its buffer; each such value, its first and last position.

    And of each such value whether it has its buffer to itself. `first` and `last` are the positions
    of each value.
    """
    reuses = fusion.profile.buffer_assignment.reuses_buffers
    owner = Buffers(program, last).owners() if reuses else np.arange(program.values)
    kept = ints(list(reused))
    owner[kept] = kept
    if reuses:
        last = handed_over(program, fusion, first, last)
    written = np.flatnonzero(fusion.written)
    number, firsts = distinct_rows(owner[written])
    begins, ends = np.full(len(firsts), program.ops), np.full(len(firsts), -1)
    np.minimum.at(begins, number, first[written])
    np.maximum.at(ends, number, last[written])
    alone = np.bincount(number, minlength=len(firsts)) == 1
    return owner, owner[written[firsts]], begins, ends, alone


def handed_over(program: Program, fusion: Fusion, first: Ints, last: Ints) -> Ints:
    """The last positions, less one where a fusion writes over what it reads last.

    Each result takes the buffer of one input of its own shape and type that nothing reads later, of
    a fusion with a product one that is added to it. XLA leaves alone what is one of several
    results: such an operand is an element of a tuple.
    """
    roots, ends = fusion.roots, last.copy()
    starts, reads = _written_over_reads(program, fusion)
    kept = flags(program.values, [argument.value for argument in program.arguments])
    hand_over(
        fusion.flow,
        roots.ops,
        starts,
        reads,
        launched_at(program, fusion),
        kept | _of_several(program, fusion),
        fusion.narrow,
        first,
        last,
        ends,
        np.full(program.values, -1),
    )
    return ends


def _written_over_reads(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """Starts by root, and the uses through which it reads what it may write over."""
    roots, flow = fusion.roots, fusion.flow
    row, multiplies = roots.rows(roots.read_start), np.diff(roots.dot_start) > 0
    over = (flow.role[roots.ops] == Role.FUSIBLE)[row]
    over[multiplies[row]] = False
    if fusion.profile.buffer_assignment.adds_in_place:
        sums = named(program, SUMS)
        mark_added(flow, roots.ops, roots.read_start, roots.reads, multiplies, sums, over)
    counts = np.bincount(row[over], minlength=len(roots))
    return np.concatenate([[0], np.cumsum(counts)]), roots.reads[over]


def _of_several(program: Program, fusion: Fusion) -> Bools:
    """Values that are one of several results of what is launched."""
    launched = fusion.launched
    made = np.diff(program.op_values)
    count = np.bincount(
        launched.rows(launched.op_start), weights=made[launched.ops], minlength=len(launched)
    )
    several = made > 1
    several[launched.ops] |= (count > 1)[launched.rows(launched.op_start)]
    return several[program.value_op]


def written_over(program: Program, fusion: Fusion, reused: dict[int, int]) -> Bools:
    """Fused products over whose result, once added up, what is made of it is written.

    Not what is written over a donated argument instead, or over what is added to it.
    """
    roots, flow = fusion.roots, fusion.flow
    root = roots.rows(roots.dot_start)
    op, dot = roots.ops[root], roots.dots
    counts = np.where(op != dot, program.op_values[op + 1] - program.op_values[op], 0)
    counts = np.where(_takes_over(program, fusion)[root], 0, counts)
    made = spans(program.op_values[op], counts)
    dot = np.repeat(dot, counts)
    product = program.op_values[dot]
    over = (flow.shape[product] == flow.shape[made]) & (flow.dtype[product] == flow.dtype[made])
    over &= ~fusion.narrow[made] & ~flags(program.values, reused)[made]
    return flags(program.ops, dot[over].tolist())


def _takes_over(program: Program, fusion: Fusion) -> Bools:
    """By root whether what it makes is written over something that it reads."""
    first, last = value_spans(program, fusion)
    ends, roots = handed_over(program, fusion, first, last), fusion.roots
    taken = (ends < last)[program.use_value[roots.reads]]
    found = np.zeros(len(roots), dtype=np.bool_)
    found[roots.rows(roots.read_start)[taken]] = True
    return found


def positions_of_ops(program: Program, fusion: Fusion, position: Ints) -> tuple[Ints, Ints]:
    """For each op the earliest and the latest `position` of the fusions that compute it."""
    low, high = np.full(program.ops, program.ops), np.full(program.ops, -1)
    stored = np.zeros(program.ops, dtype=np.bool_)
    stored[fusion.roots.ops] = True
    spread_spans(
        program.op_uses,
        program.value_op[program.use_value],
        fusion.inside,
        stored,
        position,
        low,
        high,
    )
    return low, high
