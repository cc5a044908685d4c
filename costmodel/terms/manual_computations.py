"""Regions of `shard_map`: their work and the collectives that they ask for, as they are written.

What a region does is laid out already, so it costs the same in every state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.analysis.rules import REGION
from toast.costmodel.network.collectives import Kind
from toast.costmodel.passes.buffer_assignment import LiveRanges, live_rows
from toast.costmodel.program.arrays import floats, ints, starts
from toast.costmodel.terms.journal import Bound, Entry
from toast.costmodel.terms.sources import Runs, Sent, Sources
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing


class RegionCollective(NamedTuple):
    """`runs` collectives of one run of a region.

    `axes` are a set as bits, `size` the bytes of the larger side on one device.
    """

    kind: Kind
    axes: int
    size: float
    runs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCost:
    """One run of a region: seconds of its fusions and the bytes that they move, and what it sends.

    `scratch` are the bytes that it needs besides its operands and results, which are `given`.
    """

    seconds: float
    moved: float
    bound: Bound
    scratch: float
    given: float
    collectives: tuple[RegionCollective, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualRows:
    """The ops that stand for regions, how often each runs, and what one run costs."""

    ops: Ints
    runs: Floats
    costs: tuple[RegionCost, ...]


class ManualComputations(NamedTuple):
    """By row its `weight`, and as in `RegionCost` `seconds`, `moved` bytes and `bound`.

    The collectives of a row, from `sent_start` on, are as in `RegionCollective`.
    """

    weight: Floats
    seconds: Floats
    moved: Floats
    bound: Ints
    sent_start: Ints
    sent_kind: Ints
    sent_axes: Ints
    sent_size: Floats
    sent_runs: Floats


def manual_rows(listing: Listing) -> ManualRows:
    """Each stand-in is a row."""
    program, costs = listing.program, listing.regions
    numbers = {n: int(name.removeprefix(REGION)) for n, name in enumerate(program.names)
               if name.startswith(REGION) and costs}  # fmt: skip
    ops = np.flatnonzero(np.isin(program.op_name, list(numbers)))
    return ManualRows(
        ops=ops,
        runs=program.op_trips[ops],
        costs=tuple(costs[numbers[name]] for name in program.op_name[ops].tolist()),
    )


def manual_columns(rows: ManualRows, _listing: Listing) -> ManualComputations:
    """The rows as columns."""
    sent = [one for cost in rows.costs for one in cost.collectives]
    return ManualComputations(
        weight=rows.runs,
        seconds=floats([cost.seconds for cost in rows.costs]),
        moved=floats([cost.moved for cost in rows.costs]),
        bound=ints([int(cost.bound) for cost in rows.costs]),
        sent_start=starts([cost.collectives for cost in rows.costs]),
        sent_kind=ints([int(one.kind) for one in sent]),
        sent_axes=ints([one.axes for one in sent]),
        sent_size=floats([one.size for one in sent]),
        sent_runs=floats([one.runs for one in sent]),
    )


def manual_ranges(listing: Listing) -> LiveRanges:
    """What a region needs besides its operands and results, as a part of a result's bytes."""
    program, rows = listing.program, listing.of(MANUAL_COMPUTATIONS)
    kept = [
        (int(program.op_values[op]), cost.scratch / cost.given)
        for op, cost in zip(rows.ops.tolist(), rows.costs, strict=True)
        if cost.scratch > 0.0 and cost.given > 0.0
    ]
    value = ints([value for value, _ in kept])
    at = listing.fusion.position[program.value_op[value]]
    tensor, width = listing.layouts.value_tensor[value], floats([width for _, width in kept])
    return live_rows(value, tensor, at, at, width=width)


def _fused(sources: Sources, row: int, _place: int) -> Runs:
    """The op that stands for a region."""
    rows = sources.listing.of(MANUAL_COMPUTATIONS)
    return Runs.listed([((int(rows.ops[row]),), float(rows.runs[row]))])


def _sent(sources: Sources, row: int, place: int) -> list[Sent]:
    """The first result of a region stands for what it sends."""
    rows, program = sources.listing.of(MANUAL_COMPUTATIONS), sources.program
    op = int(rows.ops[row])
    runs = float(rows.runs[row]) * rows.costs[row].collectives[place].runs
    return [(int(program.op_values[op]), (op,), runs)]


def _bound(bounds: Bounds) -> None:
    """The work of a region is the same in every state."""
    columns = bounds.tables.manual_computations
    bounds.add_constant(float((columns.weight * columns.seconds).sum()))


def _entries(columns: ManualComputations) -> int:
    return len(columns.weight) + len(columns.sent_kind)


MANUAL_COMPUTATIONS = Term(
    name="manual_computations",
    kernel="manual_computations.price_regions",
    list_rows=manual_rows,
    columns=manual_columns,
    rows=lambda columns: len(columns.weight),
    entries=_entries,
    fused={Entry.REGION: _fused},
    sent={Entry.STATED: _sent},
    bound=_bound,
)
