"""What gradients of the kernels of convolutions keep on a TPU, from when they might be summed.

Its compiler goes down the chain of gradients of activations first. The gradient of a kernel, for
which nothing of that chain waits, is summed over devices behind it. So one of two things stays
until then: the gradient, whole, or what it is made of, an activation and its gradient. It computes
the gradient at once where that is the smaller of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.space_to_batch import CONVOLUTION, kernel_gradients
from toast.costmodel.program.arrays import floats, ints, starts
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import Owners, Pairs, paired, rows_of, through
from toast.costmodel.terms.live_ranges import LiveRanges, joined
from toast.costmodel.terms.partial_sums import Partials


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A gradient: the convolution `op`, when it might run (`at`) and `until` when it is summed.

    `operands` are the buffers that it reads, each with the last position at which it is there
    in any case, where that is before `until`.
    """

    op: int
    at: int
    until: int
    operands: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Deferred gradients: the row of partials, the tensor that each is computed as.

    And `kept`, the tensors that it is made of which nothing else keeps, with their widths. Equal
    ones are one; `of` is that of each gradient.
    """

    row: Ints
    tensor: Ints
    kept: tuple[tuple[tuple[int, float], ...], ...]
    of: Ints


class DeferredColumns(NamedTuple):
    """By gradient the row of its partial sums, and the tensor that it is computed as.

    From `operand_start` on what it is made of which nothing else keeps, and the width of that.
    """

    row: Ints
    tensor: Ints
    operand_start: Ints
    operand: Ints
    operand_width: Floats


def defer(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    partials: Partials,
    buffers: tuple[LiveRanges, Ints, Ints],
) -> tuple[LiveRanges, Deferred]:
    """The live ranges with what deferred gradients keep besides; `buffers` as `buffer_ranges`."""
    live, owner, ends = buffers
    found = _waits(program, fusion, owner, ends)
    deferred = _deferred_rows(program, layouts, fusion, partials, found)
    return joined(live, _ranges(program, found, deferred)), deferred


def _waits(program: Program, fusion: Fusion, owner: Ints, ends: Ints) -> list[Wait]:
    """All gradients that wait, in program order.

    `owner` is by value what stands for its buffer, `ends` by buffer its last position, -1 for what
    is no buffer of its own. What several read stays for the last of them. In a loop none waits, as
    each iteration ends with them.
    """
    if not fusion.policy.around:
        return []
    once = fusion.flow.trips == 1.0
    gradients = kernel_gradients(program)
    gradients = gradients[once[gradients]]
    others = np.array(sorted(set(program.ops_named(CONVOLUTION)) - set(gradients.tolist())))
    chain = fusion.position[others[once[others]]] if len(others) else others
    if not len(gradients) or not len(chain):
        return []
    end = int(chain.max()) + 1
    found: list[Wait] = []
    taken: set[int] = set()
    for turn, (op, reads) in reversed(list(enumerate(_reads(program, fusion, gradients)))):
        at = int(fusion.position[op])
        until = min(max(end + turn, at), program.ops - 1)
        buffers = dict.fromkeys(owner[program.use_value[reads]].tolist())
        kept = [buffer for buffer in buffers if -1 < ends[buffer] < until and buffer not in taken]
        taken.update(kept)
        operands = tuple((buffer, int(ends[buffer])) for buffer in kept)
        found.append(Wait(op=op, at=at, until=until, operands=operands))
    return found[::-1]


def _deferred_rows(
    program: Program, layouts: Layouts, fusion: Fusion, partials: Partials, found: list[Wait]
) -> Deferred:
    """The gradients that wait, equal ones once."""
    tensors, narrow = layouts.value_tensor, fusion.narrow
    each = [
        (
            partials.of_op[wait.op],
            int(layouts.result_tensor[program.op_values[wait.op]]),
            tuple((int(tensors[v]), 0.5 if narrow[v] else 1.0) for v, _ in wait.operands),
        )
        for wait in found
    ]
    number = {key: n for n, key in enumerate(dict.fromkeys(each))}
    return Deferred(
        row=ints([row for row, _, _ in number]),
        tensor=ints([tensor for _, tensor, _ in number]),
        kept=tuple(kept for _, _, kept in number),
        of=ints([number[key] for key in each]),
    )


def _ranges(program: Program, found: list[Wait], deferred: Deferred) -> LiveRanges:
    """What waits: a gradient, or what it is made of until it is there for a moment."""
    rows: list[tuple[int, int, int, int, float, int]] = []
    for wait, number in zip(found, deferred.of.tolist(), strict=True):
        made, tensor = int(program.op_values[wait.op]), int(deferred.tensor[number])
        itself, instead = 2 * number, 2 * number + 1
        if wait.at < wait.until:
            rows.append((made, tensor, wait.at + 1, wait.until, 1.0, itself))
        rows.append((made, tensor, wait.until, wait.until, 1.0, instead))
        for (value, last), (kept, width) in zip(wait.operands, deferred.kept[number], strict=True):
            rows.append((value, kept, last + 1, wait.until, width, instead))
    return LiveRanges(
        value=ints([row[0] for row in rows]),
        tensor=ints([row[1] for row in rows]),
        first=ints([row[2] for row in rows]),
        last=ints([row[3] for row in rows]),
        width=floats([row[4] for row in rows]),
        inner=np.zeros(len(rows), dtype=np.bool_),
        deferred=ints([row[5] for row in rows]),
    )


def _reads(program: Program, fusion: Fusion, gradients: Ints) -> list[tuple[int, Ints]]:
    """Each gradient with the uses that the kernel which computes it reads."""
    roots, wanted = fusion.roots, np.zeros(program.ops, dtype=np.bool_)
    wanted[gradients] = True
    inside = wanted[roots.dots]
    where = roots.rows(roots.dot_start)[inside]
    of = dict(zip(roots.dots[inside].tolist(), where.tolist(), strict=True))
    return [
        (op, roots.reads[roots.read_start[of[op]] : roots.read_start[of[op] + 1]])
        for op in gradients.tolist()
        if op in of
    ]


def deferred_columns(deferred: Deferred) -> DeferredColumns:
    """The rows as columns."""
    kept = [pair for row in deferred.kept for pair in row]
    return DeferredColumns(
        row=deferred.row,
        tensor=deferred.tensor,
        operand_start=starts(deferred.kept),
        operand=ints([tensor for tensor, _ in kept]),
        operand_width=floats([width for _, width in kept]),
    )


def deferred_dependencies(deferred: DeferredColumns, owner: Owners, partial_sums: Pairs) -> Pairs:
    """What waits depends on the gradient, on what it is made of and on its partial sums."""
    own = paired(
        (np.arange(len(deferred.row)), owner.tensor[deferred.tensor]),
        (rows_of(deferred.operand_start), owner.tensor[deferred.operand]),
    )
    return np.concatenate([own, through(deferred.row, partial_sums)])
