"""When each stored value is alive, over the schedule of fusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.fusion_chains import hand_over
from toast.costmodel.passes.fusion_kernel import spread_spans
from toast.costmodel.passes.layout_assignment import Turns, copied_beside, inside_kernels
from toast.costmodel.passes.space_to_batch import kernel_gradients
from toast.costmodel.program.arrays import floats, ints, spans
from toast.costmodel.program.buffers import Buffers, reusing_results
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.op_traits import Role
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.deferred_filter_gradients import guards_of, waiting, waits
from toast.costmodel.terms.live_ranges import Guards, Held, joined
from toast.costmodel.terms.partial_sum_rows import Partials
from toast.costmodel.terms.reshard_rows import Edges, Widths, reduced


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Partial sums by op: the row of it, the tensor as computed, the position `at` which they are.

    What they add up to is read until `to`; `stored` tells whether that is stored in any case.
    """

    op: Ints
    row: Ints
    tensor: Ints
    at: Ints
    to: Ints
    stored: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What uses want, as the targets of `Edges`: over positions, and in what width it travels.

    `source` is the tensor of each value, `start` where its targets begin.
    """

    source: Ints
    start: Ints
    tensor: Ints
    first: Ints
    last: Ints
    width: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """`base` tensors (arguments) live throughout; `live` and `copies` over positions.

    `fetched` is how often arguments go to the chip's own memory, and results come from there in
    their place.

    `live` are buffers, then what a compiler keeps besides because of the way that elements lie
    in memory, then what waits (`guards`). For a moment each there are `sums`, before they are added
    up over devices.
    """

    base: Counter[int]
    fetched: Counter[int]
    live: Held
    guards: Guards
    copies: Copies
    sums: Sums
    positions: int


def live_intervals(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    wanted: Edges,
    widths: Widths,
    partials: Partials,
    turns: Turns,
) -> Intervals:
    """Live ranges of the values that a fused program stores; `turns` as in `turned`.

    A result that takes over a donated argument's buffer has no memory of its own.
    """
    arguments = {argument.value for argument in program.arguments}
    reused = reusing_results(program)
    inside = _flags(program.values, inside_kernels(program, fusion))
    if not fusion.policy.around:
        inside[:] = False
    low, high = _roots_of_ops(program, fusion)
    live, guards = _live(program, layouts, fusion, partials, reused, inside, turns)
    base = Counter(int(layouts.value_tensor[value]) for value in arguments)
    return Intervals(
        base=base,
        fetched=base + Counter(int(layouts.value_tensor[value]) for value in reused.values()),
        live=live,
        guards=guards,
        copies=_copies(program, layouts, wanted, widths, low, high),
        sums=_sums(program, layouts, fusion, partials, inside, high, reused),
        positions=program.ops + 1,
    )


def _flags(count: int, numbers: Iterable[int]) -> Bools:
    found = np.zeros(count, dtype=np.bool_)
    found[list(numbers)] = True
    return found


def _live(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    partials: Partials,
    reused: dict[int, int],
    inside: Bools,
    turns: Turns,
) -> tuple[Held, Guards]:
    """Buffers, what is held besides, and what waits."""
    owner, values, first, last = _buffer_spans(program, fusion, reused)
    arguments = [argument.value for argument in program.arguments]
    own = ~(_flags(program.values, [*arguments, *reused]) | inside)[values]
    values, first, last = values[own], first[own], last[own]
    beside = copied_beside(program, fusion, turns)
    others = ints([value for value, _, _ in beside])
    begins, ends = (ints([span[side] for _, span, _ in beside]) for side in (0, 1))
    held = np.concatenate([values, others])
    width = np.where(fusion.narrow[values], 0.5, 1.0)
    buffers = Held(
        value=held,
        tensor=layouts.value_tensor[held],
        first=np.concatenate([first, begins]),
        last=np.concatenate([last, ends]),
        width=np.concatenate([width, floats([width for _, _, width in beside])]),
        inner=np.concatenate([last != program.ops, np.ones(len(others), dtype=np.bool_)]),
        guard=np.full(len(held), -1),
    )
    there = np.full(program.values, -1)
    there[values] = last
    found = waits(program, fusion, owner, there)
    guards = guards_of(program, layouts, fusion, partials, found)
    return joined(buffers, waiting(program, found, guards)), guards


def _sums(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    partials: Partials,
    inside: Bools,
    high: Ints,
    reused: dict[int, int],
) -> Sums:
    """Partial sums, and whether the result is stored where there are none to add up.

    Where it is not, what they add up to stays until something is computed of it, or less where
    that is written over it.
    """
    single = np.diff(program.op_values)[partials.ops] == 1
    op, row = partials.ops[single], partials.row[single]
    value, position = program.op_values[op], fusion.position[op]
    stored = fusion.written[value] & ~inside[value]
    at = np.where(stored, position, np.minimum(position, high[op]))
    end = high[op] - _written_over(program, fusion, reused)[op]
    return Sums(
        op=op,
        row=row,
        tensor=layouts.result_tensor[value],
        at=at,
        to=np.maximum(at, end),
        stored=stored | (end < at),
    )


def _written_over(program: Program, fusion: Fusion, reused: dict[int, int]) -> Bools:
    """Fused products over whose result, once added up, what is made of it is written.

    Not what is written over a donated argument instead.
    """
    roots, flow = fusion.roots, fusion.flow
    root = roots.rows(roots.dot_start)
    op, dot = roots.ops[root], roots.dots
    counts = np.where(op != dot, program.op_values[op + 1] - program.op_values[op], 0)
    made = spans(program.op_values[op], counts)
    dot = np.repeat(dot, counts)
    product = program.op_values[dot]
    over = (flow.shape[product] == flow.shape[made]) & (flow.dtype[product] == flow.dtype[made])
    over &= ~fusion.narrow[made] & ~_flags(program.values, reused)[made]
    return _flags(program.ops, dot[over].tolist())


def _spans(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """First and last position of each value; results of `main` live to the end.

    A gradient of a convolution's kernel that is updated with it inside one kernel is computed when
    it can be, as it has to be summed over devices first.
    """
    first = fusion.position[program.value_op]
    last, roots = first.copy(), fusion.roots
    at = fusion.position[roots.ops]
    if fusion.policy.around:
        gradients = np.isin(roots.dots, kernel_gradients(program))
        at[roots.rows(roots.dot_start)[gradients]] = fusion.position[roots.dots[gradients]]
    at = at[roots.rows(roots.read_start)]
    np.maximum.at(last, program.use_value[roots.reads], at)
    last[program.use_value[ints([result.use for result in program.results])]] = program.ops
    return first, last


def _buffer_spans(
    program: Program, fusion: Fusion, reused: dict[int, int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """By value what stands for its buffer; each such value, its first and last position."""
    first, last = _spans(program, fusion)
    owner = Buffers(program, last).owners()
    kept = ints(list(reused))
    owner[kept] = kept
    last = _handed_over(program, fusion, first, last)
    written = np.flatnonzero(fusion.written)
    number, firsts = distinct_rows(owner[written])
    begins, ends = np.full(len(firsts), program.ops), np.full(len(firsts), -1)
    np.minimum.at(begins, number, first[written])
    np.maximum.at(ends, number, last[written])
    return owner, owner[written[firsts]], begins, ends


def _handed_over(program: Program, fusion: Fusion, first: Ints, last: Ints) -> Ints:
    """The last positions, less one where an elementwise kernel writes over what it reads last.

    Each result takes the buffer of one input of its own shape and type that nothing reads later.
    """
    roots, ends = fusion.roots, last.copy()
    loops = fusion.flow.role[roots.ops] == Role.FUSIBLE
    some = np.flatnonzero(loops & (np.diff(roots.dot_start) == 0))
    counts = np.diff(roots.read_start)[some]
    hand_over(
        fusion.flow,
        roots.ops[some],
        np.concatenate([[0], np.cumsum(counts)]),
        roots.reads[spans(roots.read_start[some], counts)],
        fusion.position,
        _flags(program.values, [argument.value for argument in program.arguments]),
        first,
        last,
        ends,
        np.full(program.values, -1),
    )
    return ends


def _copies(
    program: Program, layouts: Layouts, wanted: Edges, widths: Widths, low: Ints, high: Ints
) -> Copies:
    users = program.use_op[wanted.uses]
    return Copies(
        source=layouts.value_tensor[wanted.valued],
        start=wanted.start,
        tensor=wanted.tensor,
        first=reduced(np.minimum, low[users], wanted.use_start),
        last=reduced(np.maximum, high[users], wanted.use_start),
        width=widths.of,
    )


def _roots_of_ops(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """For each op the earliest and the latest position of the fusions that compute it."""
    low, high = np.full(program.ops, program.ops), np.full(program.ops, -1)
    stored = np.zeros(program.ops, dtype=np.bool_)
    stored[fusion.roots.ops] = True
    spread_spans(
        program.op_uses,
        program.value_op[program.use_value],
        ~fusion.written[program.use_value],
        stored,
        fusion.position,
        low,
        high,
    )
    return low, high
