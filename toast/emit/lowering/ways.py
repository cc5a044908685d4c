"""Which way the price takes from one layout to another, read from the resolved plan.

The price knows how XLA's partitioner moves a tensor: it may gather a dimension whole first, or let
one permute change which device has which part (`costmodel/kernels/ways.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from toast.costmodel.resolved import ResolvedPlan
from toast.emit.specs import Specs
from toast.plans.plan import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWay:
    """The axes that are gathered `whole` before all else, and those that dimensions have `traded`.

    Where they have, `exchanged` and `gathered` are the axes of what is sent besides the permute.
    """

    whole: frozenset[str] = frozenset()
    traded: frozenset[str] = frozenset()
    exchanged: frozenset[str] = frozenset()
    gathered: frozenset[str] = frozenset()


STRAIGHT = PlannedWay()
"""The way of most moves, where axes only come, go, or pass to another dimension."""


class PlannedWays:
    """The ways of all moves that a plan has, by the layouts that they lead between."""

    def __init__(self, resolved: ResolvedPlan, specs: Specs) -> None:
        names = [axis.name for axis in resolved.evaluator.mesh.axes]

        def named(axes: frozenset[int]) -> frozenset[str]:
            return frozenset(names[axis] for axis in axes)

        self._ways = {
            (str(specs.tensor(move.source)), str(specs.tensor(move.target))): PlannedWay(
                whole=named(move.whole),
                traded=named(move.traded),
                exchanged=named(move.exchanged),
                gathered=named(move.gathered),
            )
            for move in resolved.moves()
        }

    def of(self, have: Spec, want: Spec) -> PlannedWay:
        """The way from one layout to another."""
        return self._ways.get((str(have), str(want)), STRAIGHT)
