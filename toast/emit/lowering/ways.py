"""Which way the price takes from one layout to another, read from the resolved plan.

The price knows how XLA's partitioner moves a tensor: it may gather a dimension whole first, or let
one permute change which device has which part (`costmodel/kernels/ways.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from toast.costmodel.network.collectives import Kind
from toast.costmodel.resolved import ResolvedCollective, ResolvedPlan
from toast.costmodel.terms.journal import CollectiveReason, Entry
from toast.emit.specs import Specs
from toast.plans.plan import Spec

_SUMS = frozenset({Kind.ALL_REDUCE, Kind.REDUCE_SCATTER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The axes that are gathered `whole` before all else, and those that dimensions have `traded`.

    Where they have, `exchanged` and `gathered` are the axes of what is sent besides the permute.
    """

    whole: frozenset[str] = frozenset()
    traded: frozenset[str] = frozenset()
    exchanged: frozenset[str] = frozenset()
    gathered: frozenset[str] = frozenset()


STRAIGHT = Way()
"""The way of most moves, where axes only come, go, or pass to another dimension."""


class PlannedWays:
    """The ways of all moves that a plan has, by the layouts that they lead between."""

    def __init__(self, resolved: ResolvedPlan, specs: Specs) -> None:
        self._tables, self._specs = resolved.evaluator.tables, specs
        self._names = [axis.name for axis in resolved.evaluator.mesh.axes]
        sent: dict[tuple[str, str], list[ResolvedCollective]] = {}
        for one in resolved.collectives:
            if one.table in (Entry.EDGE, Entry.PARTIAL):
                sent.setdefault(self._between(one), []).append(one)
        self._ways = {
            key: self._way(rows)
            for key, rows in sent.items()
            if not any(one.kind in _SUMS for one in rows)
        }

    def of(self, have: Spec, want: Spec) -> Way:
        """The way from one layout to another."""
        return self._ways.get((str(have), str(want)), STRAIGHT)

    def _between(self, one: ResolvedCollective) -> tuple[str, str]:
        if one.table is Entry.EDGE:
            edges = self._tables.reshards
            tensors = edges.source[one.row], edges.target[edges.target_start[one.row] + one.place]
        else:
            sums = self._tables.partial_sums
            place = sums.result_start[one.row] + one.place
            tensors = sums.computed[place], sums.defined[place]
        have, want = (str(self._specs.tensor(int(tensor))) for tensor in tensors)
        return have, want

    def _way(self, rows: list[ResolvedCollective]) -> Way:
        return Way(
            whole=self._over(rows, CollectiveReason.REMATERIALIZED),
            traded=self._over(rows, CollectiveReason.TRADED),
            exchanged=self._over(rows, CollectiveReason.EXCHANGED),
            gathered=self._over(rows, CollectiveReason.GATHERED),
        )

    def _over(self, rows: list[ResolvedCollective], reason: CollectiveReason) -> frozenset[str]:
        return frozenset(
            self._names[axis] for one in rows if one.reason is reason for axis in one.axes
        )
