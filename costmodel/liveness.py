"""When each stored value is alive, over the schedule of fusions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from analysis.program import Ints, Program
from costmodel.buffers import Buffers, alike, reusing_results
from costmodel.columns import flat, ints
from costmodel.fusion import Fusion
from costmodel.kernelfusion import spread_spans
from costmodel.layouts import Layouts
from costmodel.roles import Role, role
from costmodel.rows import Edges, Widths
from costmodel.turned import copied_beside, inside_kernels

Live = tuple[int, int, int]
"""(tensor, first position, last position)."""
Held = tuple[int, int, int, float]
"""The same, and the part of its bytes that it is stored in."""
Sum = tuple[int, int, int, int, bool]
"""(row of the op, tensor as computed, position, last position at which what they add up to is
read, whether that is stored in any case)."""
Copy = tuple[int, list[tuple[int, int, int, int]]]
"""(tensor of a value, what its uses want: each in a layout, over positions of its own, and in what
width it travels, as in `rows`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """`base` tensors (arguments) live throughout; `live` and `copies` over [first, last].

    `live` are buffers by the value that stands for each, `beside` what a compiler
    keeps besides because of the way that elements lie in memory. For a moment each there are
    `sums` by op, the partial sums before they are added up over devices. `returned` buffers are
    results of the program.
    """

    base: Counter[int]
    live: dict[int, Held]
    beside: list[tuple[int, Held]]
    copies: list[Copy]
    sums: dict[int, Sum]
    returned: set[int]
    positions: int


def live_intervals(
    program: Program, layouts: Layouts, fusion: Fusion, wanted: Edges, part_of: dict[int, int]
) -> Intervals:
    """Live ranges of the values that a fused program stores.

    A result that takes over a donated argument's buffer has no memory of its own.
    """
    first, last = _spans(program, fusion)
    arguments = {argument.value for argument in program.arguments}
    reused = reusing_results(program)
    spans = _buffer_spans(program, fusion, first, last)
    inside = inside_kernels(program, fusion) if fusion.policy.around else set()
    taken = {*arguments, *reused, *inside}
    low, high = _roots_of_ops(program, fusion)
    live = {
        value: (int(layouts.value_tensor[value]), *span, 0.5 if fusion.narrow[value] else 1.0)
        for value, span in spans.items()
        if value not in taken
    }
    return Intervals(
        base=Counter(int(layouts.value_tensor[value]) for value in arguments),
        live=live,
        beside=[
            (value, (int(layouts.value_tensor[value]), *span, width))
            for value, span, width in copied_beside(program, fusion)
        ],
        copies=_copies(program, layouts, wanted, low, high),
        sums=_sums(program, layouts, fusion, part_of, inside, high),
        returned={value for value, row in live.items() if row[2] == program.ops},
        positions=program.ops + 1,
    )


def _sums(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    rows: dict[int, int],
    inside: set[int],
    high: list[int],
) -> dict[int, Sum]:
    """Partial sums, and whether the result is stored where there are none to add up.

    Where it is not, what they add up to stays until something is computed of it, or less where
    that is written over it.
    """
    unstored = {program.makers[value] for value in inside}
    over = _written_over(program, fusion)
    found = {}
    for op, row in rows.items():
        values = program.values_of(op)
        if len(values) == 1:
            tensor = int(layouts.result_tensor[values[0]])
            stored = bool(fusion.written[values[0]]) and op not in unstored
            at = int(fusion.position[op]) if stored else min(int(fusion.position[op]), high[op])
            end = high[op] - (op in over)
            found[op] = (row, tensor, at, max(at, end), stored or end < at)
    return found


def _written_over(program: Program, fusion: Fusion) -> set[int]:
    """Fused products over whose result, once added up, what is made of it is written.

    Not what is written over a donated argument instead.
    """
    found, kept = set(), set(reusing_results(program))
    for root in fusion.roots:
        values = set(program.values_of(root.op)) - kept
        made = [value for value in values if not fusion.narrow[value]]
        for op in root.contractions:
            product = program.values_of(op)[0]
            if op != root.op and any(alike(program, product, value) for value in made):
                found.add(op)
    return found


def _spans(program: Program, fusion: Fusion) -> tuple[Ints, Ints]:
    """First and last position of each value; results of `main` live to the end."""
    first = fusion.position[program.value_op]
    last = first.copy()
    reads = flat([root.reads for root in fusion.roots])
    counts = [len(root.reads) for root in fusion.roots]
    at = np.repeat(fusion.position[ints([root.op for root in fusion.roots])], counts)
    np.maximum.at(last, program.use_value[reads], at)
    last[program.use_value[ints([result.use for result in program.results])]] = program.ops
    return first, last


def _buffer_spans(
    program: Program, fusion: Fusion, first: Ints, last: Ints
) -> dict[int, tuple[int, int]]:
    """First and last position of each buffer, by the value that stands for it."""
    buffers = Buffers(program, last)
    reused = reusing_results(program)
    last = _handed_over(program, fusion, last)
    spans: dict[int, tuple[int, int]] = {}
    begins, ends = first.tolist(), last.tolist()
    for value in np.flatnonzero(fusion.written).tolist():
        owner = value if value in reused else buffers.of(value)
        start, end = spans.get(owner, (program.ops, -1))
        spans[owner] = min(start, begins[value]), max(end, ends[value])
    return spans


def _handed_over(program: Program, fusion: Fusion, last: Ints) -> Ints:
    """The last positions, less one where an elementwise kernel writes over what it reads last.

    Each result takes the buffer of one input of its own shape and type that nothing reads later.
    """
    first, ends = fusion.position[program.value_op], last.copy()
    arguments = {argument.value for argument in program.arguments}
    for root in fusion.roots:
        kinds = {role(program.kind(root.op))} | ({Role.CONTRACTION} if root.contractions else set())
        if kinds != {Role.FUSIBLE}:
            continue
        free = {program.sources[use] for use in root.reads} - arguments
        at = fusion.position[root.op]
        for value in program.values_of(root.op):
            for source in sorted(free):
                if first[source] < last[source] == at and alike(program, source, value):
                    ends[source] = at - 1
                    free.remove(source)
                    break
    return ends


def _copies(
    program: Program, layouts: Layouts, wanted: Edges, low: list[int], high: list[int]
) -> list[Copy]:
    widths, tensor_of, users = Widths(program), layouts.value_tensor.tolist(), program.users
    copies = []
    for value, targets in wanted.items():
        copied = []
        for tensor, (_, uses) in targets.items():
            ops = [users[use] for use in uses]
            span = (min([low[op] for op in ops]), max([high[op] for op in ops]))
            copied.append((tensor, *span, widths.of(value, uses)))
        copies.append((tensor_of[value], copied))
    return copies


def _roots_of_ops(program: Program, fusion: Fusion) -> tuple[list[int], list[int]]:
    """For each op the earliest and the latest position of the fusions that compute it."""
    low, high = np.full(program.ops, program.ops), np.full(program.ops, -1)
    stored = np.zeros(program.ops, dtype=np.bool_)
    stored[[root.op for root in fusion.roots]] = True
    spread_spans(
        program.op_uses,
        program.value_op[program.use_value],
        ~fusion.written[program.use_value],
        stored,
        fusion.position,
        low,
        high,
    )
    return low.tolist(), high.tolist()
