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

PRODUCT = "stablehlo.dot_general"
_COLLECTIVES = (Entry.PARTIAL, Entry.EDGE, Entry.HALO)


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
    _told: dict[tuple[int, int], bool] = field(default_factory=dict)
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
        mask = int(self.masks[item]) if item >= 0 else 0
        if not mask:
            return ()
        t = self.evaluator.tables
        group = int(t.units.item_group[item])
        if group < 0:
            first, end = t.units.fixed_start[item : item + 2].tolist()
            return tuple(t.units.fixed_axis[first:end].tolist())
        return tuple(axis for axis in self.orders[group].tolist() if mask >> axis & 1)

    def is_told(self, op: int) -> bool:
        """Whether the compiler must be told the layout in which an op makes its results.

        Told, it sums over devices in one piece, as priced. Left alone, it scatters what it would
        not scatter if it were told: some axes of a sum, those that come in another order, those
        that come to a dimension which is sharded already, and the rows of a flattened product.
        """
        row = self._partial_row(op)
        if row < 0:
            return True
        rows = self._rows(op)
        if (row, rows) not in self._told:
            first, end = self.evaluator.tables.partial_sums.result_start[row : row + 2].tolist()
            self._told[row, rows] = bool(
                self.scratch.reduce_scatters.told[first:end].all()
                and not any(self._scatters_rows(row, result, rows) for result in range(first, end))
            )
        return self._told[row, rows]

    def is_added(self, op: int) -> bool:
        """Whether the partial sums of an op are added to others, and summed with these."""
        row = self._partial_row(op)
        if row < 0:
            return False
        first = int(self.evaluator.tables.partial_sums.result_start[row])
        return bool(self.scratch.reduce_scatters.reason[first] == CollectiveReason.ADDED)

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

    def _rows(self, op: int) -> int:
        """The dimension of the rows of a product that is a matrix but for dimensions of 1, or -1.

        A TPU multiplies matrices, and puts those dimensions back for what it is told of the result.
        What it sums then it does not scatter by rows.
        """
        program = self.evaluator.analysis.program
        shape = program.shape(program.values_of(op)[0])
        if 1 not in shape or program.kind(op) != PRODUCT or not self._flattens:
            return -1
        left = program.use_names(program.uses_of(op)[0])
        made = program.def_names(program.values_of(op)[0])
        rows = np.flatnonzero((np.array(shape) > 1) & np.isin(made, left))
        return int(rows[0]) if len(rows) == 1 else -1

    @property
    def _flattens(self) -> bool:
        return self.evaluator.profile.reduce_scatter_creator.flattens_unit_dims

    def _scatters_rows(self, row: int, result: int, rows: int) -> bool:
        """Whether sums over one axis are scattered over the rows of a flattened product.

        Those over several axes the compiler would scatter block by block while it multiplies.
        """
        summed = int(self.scratch.partial_sums.reduced[row])
        if rows < 0 or not summed or summed & (summed - 1):
            return False
        t, reasons = self.evaluator.tables, self.scratch.reduce_scatters.reason
        reason = reasons[result]
        if reason == CollectiveReason.ADDED:
            reason = reasons[t.partial_sums.result_start[t.partial_sums.added_to[row]]]
        if reason != CollectiveReason.SCATTERED:
            return False
        kept = t.tensors.dim_item[t.tensors.start[t.partial_sums.defined[result]] + rows]
        return bool(kept >= 0 and self.masks[kept] & summed)

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


def _sent(journal: Floats) -> Floats:
    return journal[np.isin(journal[:, TABLE], _COLLECTIVES)]


def resolve(evaluator: Evaluator, state: Refined) -> ResolvedPlan:
    """Evaluate a state once more, with a journal, and keep what was decided."""
    cost, scratch, journal = evaluator.journal(state)
    masks, places = scratch.units.mask.copy(), scratch.axis_order.place
    return ResolvedPlan(
        evaluator=evaluator,
        state=state,
        cost=cost,
        masks=masks,
        orders=np.argsort(places, axis=1, kind="stable"),
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
