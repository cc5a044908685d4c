"""The resolved plan: all that was decided about one state, in one record.

The evaluator decides while it prices: layouts, the order of axes, the collective behind every move
and why it is no cheaper one. What writes, explains or refines a plan reads the record and decides
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.evaluator import Cost, Evaluator, Refined
from toast.costmodel.network.collectives import Kind
from toast.costmodel.passes.while_loop_all_reduce_motion import added_sums
from toast.costmodel.program.buffers import carried_constants
from toast.costmodel.program.pins import Axes, Layout
from toast.costmodel.tables import Scratch
from toast.costmodel.terms.journal import (
    COMBINED,
    COUNT,
    DETAIL,
    KIND,
    PLACE,
    ROW,
    SECONDS,
    SIZE,
    TABLE,
    WHY,
    CollectiveReason,
    Entry,
)
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS
from toast.costmodel.terms.reshards import NARROW
from toast.costmodel.terms.units import Units

_COLLECTIVES = (Entry.PARTIAL, Entry.EDGE, Entry.HALO, Entry.STATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCollective:
    """Equal collectives that the price has, and the `reason` for them.

    `table`, `row` and `place` are those of the journal: the results of an op (`PARTIAL`), a value
    and its uses (`EDGE`) or an operand that needs a neighbour's strip (`HALO`). `axes` are numbers
    of mesh axes, `bytes` what one device sends; all are of `count` runs. `combined` where the
    compiler sends it together with others.
    """

    table: Entry
    row: int
    place: int
    kind: Kind
    axes: tuple[int, ...]
    count: float
    bytes: float
    seconds: float
    reason: CollectiveReason
    combined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedMove:
    """A move from one layout to another (of tensors) that takes another way than most.

    The axes that are gathered `whole` before all else, and those that dimensions have `traded`, by
    a permute. Where they have, `exchanged` and `gathered` are the axes of what is sent besides it.
    """

    source: int
    target: int
    whole: frozenset[int]
    traded: frozenset[int]
    exchanged: frozenset[int]
    gathered: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSum:
    """Partial sums of an op, or a part of them, that a loop adds to what it carries.

    `body` and `condition` are the carried value in the loop's regions, `path` the uses from the
    op's result to the loop's end.
    """

    condition: int
    body: int
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTotal:
    """All collectives of one kind over one set of axes: count, wire bytes and seconds."""

    kind: Kind
    axes: tuple[int, ...]
    count: float
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedPlan:
    """What the evaluator decided about one state.

    `masks` are the axes of each item as bits, `orders` [colour groups, axes] all axes of the mesh
    from the first to the last. `journal` has every term of the cost, `scratch` what the kernels
    worked on; both are of all rows, as `evaluator.tables`.
    """

    evaluator: Evaluator
    state: Refined
    cost: Cost
    masks: Ints
    orders: Ints
    collectives: tuple[ResolvedCollective, ...]
    journal: Floats
    scratch: Scratch
    _layouts: dict[int, Layout] = field(default_factory=dict)
    _scattered: dict[tuple[int, int], Axes] = field(default_factory=dict)

    def layout(self, tensor: int) -> Layout:
        """The axes on each dimension of a tensor (of `evaluator.layouts`), in order."""
        found = self._layouts.get(tensor)
        if found is None:
            _, dims = self.evaluator.layouts.tensors[tensor]
            found = self._layouts[tensor] = tuple(self.axes_of(item) for _, item in dims)
        return found

    def axes_of(self, item: int) -> Axes:
        """The axes on an item, from the first to the last."""
        return item_axes(self.evaluator.tables.units, self.masks, self.orders, item)

    def constrains_result(self, op: int) -> bool:
        """Whether the module constrains what an op makes to the layout that it makes it in.

        Before its sums over devices, and besides the layout that the result is kept in;
        `kernels/sum_order.py` says why.
        """
        row = self._partial_row(op)
        if row < 0:
            return True
        first, end = self.evaluator.tables.partial_sums.result_start[row : row + 2].tolist()
        return bool(self.scratch.reduce_scatters.constrained[first:end].all())

    def is_added(self, op: int) -> bool:
        """Whether the partial sums of an op are added to others, and summed with these."""
        row = self._partial_row(op)
        if row < 0:
            return False
        first = int(self.evaluator.tables.partial_sums.result_start[row])
        return bool(self.scratch.reduce_scatters.reason[first] == CollectiveReason.ADDED)

    def loop_sums(self) -> dict[int, list[LoopSum]]:
        """The ops whose partial sums loops carry and are summed behind them, and as what parts."""
        return {
            op: [
                LoopSum(condition=one.slot.condition, body=one.slot.body, path=one.path)
                for one in parts
            ]
            for op, parts in added_sums(self.evaluator.analysis.program).items()
            if self._is_behind_loop(op)
        }

    def _is_behind_loop(self, op: int) -> bool:
        row = self._partial_row(op)
        return row >= 0 and bool(self.scratch.partial_sums.behind_loop[row])

    def carried_constants(self) -> dict[int, int]:
        """What loops only pass on, and the constant it is: that is made anew in any layout."""
        return carried_constants(self.evaluator.analysis.program)

    def narrow_uses(self) -> frozenset[int]:
        """The uses that join values which are converted to 16 bits behind, and are sent so."""
        listing = self.evaluator.listing
        wanted, narrow = listing.wanted, np.flatnonzero(listing.widths.of == NARROW).tolist()
        spans = [wanted.uses[wanted.use_start[n] : wanted.use_start[n + 1]] for n in narrow]
        return frozenset(use for span in spans for use in span.tolist())

    def moves(self) -> list[ResolvedMove]:
        """The moves that gather something whole first, or trade axes."""
        tables, rows = self.evaluator.tables, dict[tuple[int, int], list[ResolvedCollective]]()
        for one in self.collectives:
            if one.table is Entry.EDGE:
                target = tables.reshards.target_start[one.row] + one.place
                tensors = tables.reshards.source[one.row], tables.reshards.target[target]
            elif one.table is Entry.PARTIAL:
                result = tables.partial_sums.result_start[one.row] + one.place
                tensors = tables.partial_sums.computed[result], tables.partial_sums.defined[result]
            else:
                continue
            rows.setdefault((int(tensors[0]), int(tensors[1])), []).append(one)
        return [_move(tensors, sent) for tensors, sent in rows.items() if _is_moved(sent)]

    def scattered(self, op: int, place: int) -> Axes:
        """The axes over which the partial sums of one of the results of an op are scattered."""
        if not self._scattered:
            self._scattered.update(
                ((one.row, one.place), one.axes)
                for one in self.collectives
                if one.table is Entry.PARTIAL and one.kind is Kind.REDUCE_SCATTER
            )
        return self._scattered.get((self._partial_row(op), place), ())

    def _partial_row(self, op: int) -> int:
        """The row of the partial sums of an op, or -1."""
        return self.evaluator.listing.of(PARTIAL_SUMS).of_op.get(op, -1)

    def totals(self) -> list[CollectiveTotal]:
        """The communication by kind and axes, costliest first."""
        sent, rows = _sent(self.journal), []
        for kind, axes in np.unique(sent[:, [KIND, DETAIL]].astype(np.int64), axis=0).tolist():
            same = (sent[:, KIND] == kind) & (sent[:, DETAIL] == axes)
            count, size, seconds = sent[same][:, [COUNT, SIZE, SECONDS]].sum(axis=0).tolist()
            rows.append(
                CollectiveTotal(
                    kind=Kind(kind),
                    axes=_bits(axes, self.orders.shape[1]),
                    count=count,
                    bytes=size,
                    seconds=seconds,
                )
            )
        return sorted(rows, key=lambda row: -row.seconds)


def _is_moved(sent: list[ResolvedCollective]) -> bool:
    """Whether something is gathered whole before all else, or axes are traded."""
    reasons = {one.reason for one in sent}
    return not reasons.isdisjoint((CollectiveReason.REMATERIALIZED, CollectiveReason.TRADED))


def _move(tensors: tuple[int, int], sent: list[ResolvedCollective]) -> ResolvedMove:
    def over(reason: CollectiveReason) -> frozenset[int]:
        return frozenset(axis for one in sent if one.reason is reason for axis in one.axes)

    return ResolvedMove(
        source=tensors[0],
        target=tensors[1],
        whole=over(CollectiveReason.REMATERIALIZED),
        traded=over(CollectiveReason.TRADED),
        exchanged=over(CollectiveReason.EXCHANGED),
        gathered=over(CollectiveReason.GATHERED),
    )


def _sent(journal: Floats) -> Floats:
    return journal[np.isin(journal[:, TABLE], _COLLECTIVES)]


def item_axes(units: Units, masks: Ints, orders: Ints, item: int) -> Axes:
    """The axes on an item under `masks` and `orders` as of a `ResolvedPlan`."""
    mask = int(masks[item]) if item >= 0 else 0
    if not mask:
        return ()
    group = int(units.item_group[item])
    if group < 0:
        first, end = units.fixed_start[item : item + 2].tolist()
        return tuple(units.fixed_axis[first:end].tolist())
    return tuple(axis for axis in orders[group].tolist() if mask >> axis & 1)


def axis_orders(scratch: Scratch) -> Ints:
    """All axes of the mesh for each colour group, from the first to the last, as it was priced."""
    found: Ints = np.argsort(scratch.axis_order.place, axis=1, kind="stable")
    return found


def resolve(evaluator: Evaluator, state: Refined) -> ResolvedPlan:
    """Evaluate a state once more, with a journal, and keep what was decided."""
    cost, scratch, journal = evaluator.journal(state)
    return ResolvedPlan(
        evaluator=evaluator,
        state=state,
        cost=cost,
        masks=scratch.units.mask.copy(),
        orders=axis_orders(scratch),
        collectives=tuple(_collectives(journal, len(evaluator.mesh.axes))),
        journal=journal,
        scratch=scratch,
    )


def _collectives(journal: Floats, axes: int) -> list[ResolvedCollective]:
    sent = _sent(journal)
    names = {int(mask): _bits(int(mask), axes) for mask in np.unique(sent[:, DETAIL])}
    return [
        ResolvedCollective(
            table=Entry(int(row[TABLE])),
            row=int(row[ROW]),
            place=int(row[PLACE]),
            kind=Kind(int(row[KIND])),
            axes=names[int(row[DETAIL])],
            count=row[COUNT],
            bytes=row[SIZE],
            seconds=row[SECONDS],
            reason=CollectiveReason(int(row[WHY])),
            combined=bool(row[COMBINED]),
        )
        for row in sent.tolist()
    ]


def _bits(mask: int, axes: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(axes) if mask >> axis & 1)
