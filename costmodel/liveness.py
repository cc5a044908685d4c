"""When each stored value is alive, over the schedule of fusions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from analysis.program import Ints, Program
from costmodel.buffers import Buffers, alike, reusing_results
from costmodel.columns import flat, ints
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.roles import Role, role
from costmodel.rows import Edges
from costmodel.turned import copied_beside, inside_kernels

Live = tuple[int, int, int]
"""(tensor, first position, last position)."""
Held = tuple[int, int, int, float]
"""The same, and the part of its bytes that it is stored in."""
Feed = tuple[int, int, int]
"""(row of the op among the partials, tensor that it reads, position)."""
Sum = tuple[int, int, int, bool]
"""(row of the op, tensor as computed, position, whether the result is stored in any case)."""
Copy = tuple[int, list[Live]]
"""(tensor of a value, what its uses want: each in a layout and over positions of its own)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """`base` tensors (arguments) live throughout; `live` and `copies` over [first, last].

    `live` are buffers by the value that stands for each, `beside` what a compiler
    keeps besides because of the way that elements lie in memory. For a moment each there are
    `sums` by op, the partial sums before they are added up over devices, and `feeds` by use: what
    a contraction whose sums are scattered cannot compute inside itself.
    """

    base: Counter[int]
    live: dict[int, Held]
    beside: list[tuple[int, Held]]
    copies: list[Copy]
    sums: dict[int, Sum]
    feeds: dict[int, Feed]
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
        copies=_copies(program, layouts, fusion, wanted),
        sums=_sums(program, layouts, fusion, part_of, inside),
        feeds=_feeds(program, layouts, fusion, part_of),
        positions=program.ops + 1,
    )


def _sums(
    program: Program, layouts: Layouts, fusion: Fusion, rows: dict[int, int], inside: set[int]
) -> dict[int, Sum]:
    """Partial sums, and whether the result is stored where there are none to add up."""
    unstored = {program.makers[value] for value in inside}
    found = {}
    for op, row in rows.items():
        values = program.values_of(op)
        if len(values) == 1:
            tensor = int(layouts.result_tensor[values[0]])
            stored = bool(fusion.written[values[0]]) and op not in unstored
            found[op] = (row, tensor, int(fusion.position[op]), stored)
    return found


def _feeds(
    program: Program, layouts: Layouts, fusion: Fusion, rows: dict[int, int]
) -> dict[int, Feed]:
    """What contractions compute inside themselves, with the row of their partial sums.

    Where those are scattered a TPU sends the sums while it multiplies, block by block, and every
    block needs the whole operand in memory. On a GPU there are none: it stores them in any case.
    """
    found = {}
    for op, row in rows.items():
        if role(program.kind(op)) is Role.CONTRACTION:
            for use in program.uses_of(op):
                value = program.sources[use]
                if not fusion.written[value] and not fusion.light[value]:
                    at = int(fusion.position[op])
                    found[use] = (row, int(layouts.use_tensor[use]), at)
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


def _copies(program: Program, layouts: Layouts, fusion: Fusion, wanted: Edges) -> list[Copy]:
    low, high = _roots_of_ops(program, fusion)
    copies = []
    for value, targets in wanted.items():
        copied = []
        for tensor, (_, uses) in targets.items():
            users = {program.user(use) for use in uses}
            span = (min(low[op] for op in users), max(high[op] for op in users))
            copied.append((tensor, *span))
        copies.append((int(layouts.value_tensor[value]), copied))
    return copies


def _roots_of_ops(program: Program, fusion: Fusion) -> tuple[list[int], list[int]]:
    """For each op the earliest and the latest position of the fusions that compute it."""
    low, high = [program.ops] * program.ops, [-1] * program.ops
    stored, position = {root.op for root in fusion.roots}, fusion.position.tolist()
    sources, makers, written = program.sources, program.makers, fusion.written.tolist()
    for op in range(program.ops - 1, -1, -1):
        if op in stored or low[op] > high[op]:
            low[op] = min(low[op], position[op])
            high[op] = max(high[op], position[op])
        for use in program.uses_of(op):
            if not written[sources[use]]:
                source = makers[sources[use]]
                low[source] = min(low[source], low[op])
                high[source] = max(high[source], high[op])
    return low, high
