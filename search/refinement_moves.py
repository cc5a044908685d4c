"""What a refinement may do at the sites of a program: one axis moved, taken away or added.

It does so at one site; at two neighbours that agree on the dimension, an op and what it makes or
uses; or at everything that a compatibility set resolves, which takes the other resolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from toast.analysis.program import Ints
from toast.costmodel.evaluator import Evaluator, Refinement
from toast.search.decision_sites import DecisionSite, SiteMembers, units
from toast.search.set_resolutions import SetResolution

Spot = tuple[tuple[int, int], ...]
"""(Unit, item or -1) of each unit of a place."""


class Refinements:
    """The refinements that a finer evaluator leaves open, in the order of its sites."""

    def __init__(
        self,
        evaluator: Evaluator,
        things: SiteMembers,
        places: Sequence[DecisionSite],
        sides: Sequence[SetResolution] = (),
    ) -> None:
        self._layouts = evaluator.layouts
        self._sides = [(side.group, units(evaluator, side.things)) for side in sides]
        self._tables = evaluator.tables
        self._things = things
        self._places = places
        self._units = [units(evaluator, place.things) for place in places]
        self._at = {thing: n for n, place in enumerate(places) for thing in place.things}
        self._sizes = evaluator.tables.mesh.axis_size.tolist()

    def open(self, masks: Ints) -> list[Refinement]:
        """All refinements where items have the axes `masks`: sets, single sites, then pairs."""
        single, pairs = [*self._swaps(masks)], []
        for number, place in enumerate(self._places):
            for axis in (axis for axis, size in enumerate(self._sizes) if size > 1):
                for item in range(-1, len(place.names)):
                    spot = self._spot(number, axis, item, masks)
                    if spot is not None:
                        single.append(Refinement(axis=axis, places=spot))
                        for other in self._beside(number, axis, item, masks):
                            pairs.append(Refinement(axis=axis, places=spot + other))
        return list(dict.fromkeys(single + pairs))

    def _swaps(self, masks: Ints) -> Iterator[Refinement]:
        """Each set resolved the other way round, one axis at a time."""
        for group, members in self._sides:
            for axis in range(len(self._sizes)):
                swapped = [self._swap(unit, group, axis, masks) for unit in members]
                spots = tuple(spot for spot in swapped if spot is not None)
                if spots:
                    yield Refinement(axis=axis, places=spots)

    def _swap(self, unit: int, group: int, axis: int, masks: Ints) -> tuple[int, int] | None:
        """The item of a unit on the other side of a conflict of a set group from its holder."""
        items, now = self._layouts.units[unit][0], self._holder(unit, axis, masks)
        if now < 0 or items[now][2] != group:
            return None
        for item, (_, _, which, side, _) in enumerate(items):
            if which == group and side != items[now][3]:
                return (unit, item) if self._may(unit, axis, item, masks) else None
        return None

    def _beside(self, number: int, axis: int, item: int, masks: Ints) -> Iterator[Spot]:
        """The same at places next to this one."""
        thing = self._places[number].first
        dim = item if item >= 0 else self._holder(self._units[number][0], axis, masks)
        seen = {number}
        for other in self._things.beside(thing):
            at = self._at.get(other, number)
            if at in seen:
                continue
            seen.add(at)
            joint = self._things.joint(thing, dim, other)
            spot = None
            if joint >= 0:
                spot = self._spot(at, axis, joint if item >= 0 else -1, masks)
            if spot is not None:
                yield spot

    def _holder(self, unit: int, axis: int, masks: Ints) -> int:
        """The item of a unit that has an axis, or -1."""
        first, end = self._tables.units.start[unit : unit + 2].tolist()
        held = (masks[first:end] >> axis & 1).tolist()
        return held.index(1) if 1 in held else -1

    def _spot(self, number: int, axis: int, item: int, masks: Ints) -> Spot | None:
        """An axis at one place, unless it is there already, or may not be."""
        for unit in self._units[number]:
            if not self._may(unit, axis, item, masks):
                return None
        return tuple((unit, item) for unit in self._units[number])

    def _may(self, unit: int, axis: int, item: int, masks: Ints) -> bool:
        t = self._tables
        first, now = int(t.units.start[unit]), self._holder(unit, axis, masks)
        if now == item or t.units.forbidden[unit] >> axis & 1:
            return False
        if now >= 0 and t.units.item_fixed[first + now] >> axis & 1:
            return False
        if item < 0:
            return True
        held = int(masks[first + item])
        shards = math.prod(size for a, size in enumerate(self._sizes) if held >> a & 1)
        size = int(t.units.item_size[first + item])
        return bool(
            t.units.item_group[first + item] >= 0 and size % (shards * self._sizes[axis]) == 0
        )
