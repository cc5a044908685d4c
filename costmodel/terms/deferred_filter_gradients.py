"""Memory of gradients of filters, or of what they are made of, until they are summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.passes.buffer_assignment import LiveRanges, live_rows
from toast.costmodel.passes.deferred_filter_gradients import Wait, waiting_gradients
from toast.costmodel.program.arrays import floats, ints, starts
from toast.costmodel.terms.dependents import OwningUnits, Pairs, paired, rows_of, through
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Deferred gradients: the row of partials, the tensor that each is computed as.

    And `kept`, the tensors that it is made of which nothing else keeps, with their widths. Equal
    ones are one; `of` is that of each gradient.
    """

    waits: list[Wait]
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


def deferred_rows(listing: Listing) -> Deferred:
    """The gradients that wait, equal ones once."""
    program, layouts, fusion = listing.program, listing.layouts, listing.fusion
    found = waiting_gradients(program, fusion, listing.buffers)
    tensors, narrow = layouts.value_tensor, fusion.narrow
    each = [
        (
            listing.of(PARTIAL_SUMS).of_op[wait.op],
            int(layouts.result_tensor[program.op_values[wait.op]]),
            tuple((int(tensors[v]), 0.5 if narrow[v] else 1.0) for v, _ in wait.operands),
        )
        for wait in found
    ]
    number = {key: n for n, key in enumerate(dict.fromkeys(each))}
    return Deferred(
        waits=found,
        row=ints([row for row, _, _ in number]),
        tensor=ints([tensor for _, tensor, _ in number]),
        kept=tuple(kept for _, _, kept in number),
        of=ints([number[key] for key in each]),
    )


def deferred_ranges(program: Program, deferred: Deferred) -> LiveRanges:
    """What waits: a gradient, or what it is made of until it is there for a moment."""
    rows: list[tuple[int, int, int, int, float, int]] = []
    for wait, number in zip(deferred.waits, deferred.of.tolist(), strict=True):
        made, tensor = int(program.op_values[wait.op]), int(deferred.tensor[number])
        itself, instead = 2 * number, 2 * number + 1
        if wait.at < wait.until:
            rows.append((made, tensor, wait.at + 1, wait.until, 1.0, itself))
        rows.append((made, tensor, wait.until, wait.until, 1.0, instead))
        for (value, last), (kept, width) in zip(wait.operands, deferred.kept[number], strict=True):
            rows.append((value, kept, last + 1, wait.until, width, instead))
    return live_rows(
        ints([row[0] for row in rows]),
        ints([row[1] for row in rows]),
        ints([row[2] for row in rows]),
        ints([row[3] for row in rows]),
        width=floats([row[4] for row in rows]),
        deferred=ints([row[5] for row in rows]),
    )


def deferred_columns(deferred: Deferred, _listing: Listing) -> DeferredColumns:
    """The rows as columns."""
    kept = [pair for row in deferred.kept for pair in row]
    return DeferredColumns(
        row=deferred.row,
        tensor=deferred.tensor,
        operand_start=starts(deferred.kept),
        operand=ints([tensor for tensor, _ in kept]),
        operand_width=floats([width for _, width in kept]),
    )


def deferred_dependencies(deferred: DeferredColumns, owners: OwningUnits) -> Pairs:
    """What waits depends on the gradient, on what it is made of and on its partial sums."""
    own = paired(
        (np.arange(len(deferred.row)), owners.tensor[deferred.tensor]),
        (rows_of(deferred.operand_start), owners.tensor[deferred.operand]),
    )
    return np.concatenate([own, through(deferred.row, owners.terms["partial_sums"])])


DEFERRED = Term(
    name="deferred",
    kernel="memory.find_peaks",
    list_rows=deferred_rows,
    columns=deferred_columns,
    rows=lambda deferred: len(deferred.row),
    dependencies=deferred_dependencies,
)
