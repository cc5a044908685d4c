"""Memory of partial sums, and of what they add up to where nothing else stores that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.dependents import Owners, Pairs, paired, through
from toast.costmodel.terms.journal import PLACES
from toast.costmodel.terms.live_ranges import flags, stored_inside
from toast.costmodel.terms.partial_sums import Partials
from toast.costmodel.terms.schedule import Schedule


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


class SumColumns(NamedTuple):
    """Rows of `times` sums that are alike, of one `row` of partial sums and of one tensor.

    The sums are there over the events [first, last], what they add up to over [first, until] unless
    it is `stored` anyway; that may be on the chip as `stay` tells.
    """

    row: Ints
    tensor: Ints
    first: Ints
    last: Ints
    until: Ints
    times: Floats
    stay: Ints
    stored: Ints


class SumScratch(NamedTuple):
    """`stale` rows are to be priced again.

    By row and place the bytes that are counted of the sums (`held`) and of what they add up to.
    """

    stale: Bools
    held: Floats
    summed_held: Floats


def sum_buffers(
    program: Program,
    layouts: Layouts,
    fusion: Fusion,
    partials: Partials,
    latest: Ints,
    reused: dict[int, int],
) -> Sums:
    """Partial sums, and whether the result is stored where there are none to add up.

    Where it is not, what they add up to stays until something is computed of it, or less where
    that is written over it. `latest` is by op the last position that computes it.
    """
    inside = stored_inside(program, fusion)
    single = np.diff(program.op_values)[partials.ops] == 1
    op, row = partials.ops[single], partials.row[single]
    value, position = program.op_values[op], fusion.position[op]
    stored = fusion.written[value] & ~inside[value]
    at = np.where(stored, position, np.minimum(position, latest[op]))
    end = latest[op] - _written_over(program, fusion, reused)[op]
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
    over &= ~fusion.narrow[made] & ~flags(program.values, reused)[made]
    return flags(program.ops, dot[over].tolist())


def sum_columns(sums: Sums, schedule: Schedule) -> SumColumns:
    """The rows as columns, between events."""
    at, to = schedule.event_at(sums.at), schedule.event_at(sums.to)
    return SumColumns(
        row=sums.row,
        tensor=sums.tensor,
        first=at,
        last=at,
        until=to,
        times=np.ones(len(at)),
        stay=schedule.stay(at, to),
        stored=sums.stored.astype(np.int64),
    )


def sum_scratch(sums: SumColumns, stale: Bools) -> SumScratch:
    """Working arrays for these rows."""
    shape = len(sums.row), PLACES
    return SumScratch(stale=stale, held=np.zeros(shape), summed_held=np.zeros(shape))


def sum_dependencies(sums: SumColumns, owner: Owners, partial_sums: Pairs) -> Pairs:
    """Memory of sums depends on their tensor and on all that their row of partial sums does."""
    own = paired((np.arange(len(sums.row)), owner.tensor[sums.tensor]))
    return np.concatenate([own, through(sums.row, partial_sums)])
