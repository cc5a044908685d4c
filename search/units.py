"""The strategies of every unit, and which of them a decision on a colour group allows.

A unit is what competes for axes (`sharding_units`): the factors of an op or the dimensions of a
value. Its strategies are all layouts that some state may give it. A decision is (colour group,
axis): none, or one of the resolutions that the actions have; the first action of a state on that
pair is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.evaluator import Action, Evaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """`masks` and `shards` [strategies, items]: the axes of each item as bits, and their product.

    `groups`, `sizes`, `bits` and `sides` [items] as in the evaluator's tables; `closed` are the
    axes that nothing in the unit may take.
    """

    masks: Ints
    shards: Ints
    groups: Ints
    sizes: Ints
    bits: Ints
    sides: Ints
    closed: int


Decisions = dict[tuple[int, int], list[int]]
"""(Colour group, axis) -> the resolutions that actions on it have."""


def decisions(actions: tuple[Action, ...]) -> Decisions:
    """The decisions that a set of actions leaves open."""
    found: Decisions = {}
    for action in actions:
        found.setdefault((action.group, action.axis), []).append(action.bits)
    return found


def units_of(evaluator: Evaluator, open_decisions: Decisions) -> list[Unit]:
    """Every unit with its strategies, the one without any action first."""
    tables = evaluator.tables
    return [
        _unit(evaluator, number, open_decisions) for number in range(len(tables.units.start) - 1)
    ]


def _unit(evaluator: Evaluator, number: int, open_decisions: Decisions) -> Unit:
    t = evaluator.tables
    items = slice(int(t.units.start[number]), int(t.units.start[number + 1]))
    fixed, whole = t.units.item_fixed[items], t.units.item_shards[items]
    groups, sizes = t.units.item_group[items], t.units.item_size[items]
    choices = []
    for axis, size in enumerate(t.mesh.axis_size.tolist()):
        free = not int(t.units.forbidden[number]) >> axis & 1
        able = [
            item
            for item in range(len(groups))
            if free and (int(groups[item]), axis) in open_decisions and sizes[item] % size == 0
        ]
        choices.append([-1, *able])
    masks, shards = [], []
    for places in product(*choices):
        mask, count = fixed.copy(), whole.copy()
        for axis, item in enumerate(places):
            if item >= 0:
                mask[item] |= 1 << axis
                count[item] *= t.mesh.axis_size[axis]
        changed = [item for item in places if item >= 0]
        if all(sizes[item] % count[item] == 0 for item in changed):
            masks.append(mask)
            shards.append(count)
    return Unit(
        masks=np.array(masks, dtype=np.int64).reshape(len(masks), len(groups)),
        shards=np.array(shards, dtype=np.int64).reshape(len(shards), len(groups)),
        groups=groups,
        sizes=sizes,
        bits=t.units.item_bit[items],
        sides=t.units.item_side[items],
        closed=int(t.units.forbidden[number]),
    )


def allowed(unit: Unit, group: int, axis: int, size: int, resolutions: list[int]) -> Floats:
    """0 where a decision and a strategy go together, infinity where no state has both.

    [1 + resolutions, strategies]; the first row is the decision to leave the pair alone. Rules that
    depend on the order of decisions are left out, so more goes together here than in a state.
    """
    table = np.zeros((1 + len(resolutions), len(unit.masks)))
    mine = np.flatnonzero(unit.groups == group)
    has = (unit.masks >> axis & 1).astype(bool)
    if unit.closed >> axis & 1:
        return table
    table[0, has[:, mine].any(axis=1)] = np.inf
    for row, bits in enumerate(resolutions, 1):
        matching = [item for item in mine.tolist() if _matches(unit, item, bits)]
        others = [other for other in resolutions if other != bits]
        for strategy in range(len(unit.masks)):
            room = unit.sizes % (unit.shards[strategy] * size) == 0
            if not _goes(unit, has[strategy], room, mine.tolist(), matching, others):
                table[row, strategy] = np.inf
    return table


def _goes(
    unit: Unit,
    has: Floats,
    room: Floats,
    mine: list[int],
    matching: list[int],
    others: list[int],
) -> bool:
    """Whether a strategy may come of an action that matches the items `matching`.

    An item that still has room for the axis in the end had room when the action came.
    """
    if not has.any():
        return not any(room[item] for item in matching)
    holder = int(np.flatnonzero(has)[0])
    if holder not in mine:
        return True
    if holder in matching:
        return not any(room[item] for item in matching if item < holder)
    late = any(_matches(unit, holder, bits) for bits in others)
    return late and not any(room[item] for item in matching)


def _matches(unit: Unit, item: int, bits: int) -> bool:
    bit = int(unit.bits[item])
    return bit < 0 or bits >> bit & 1 == int(unit.sides[item])


def touching(units: list[Unit], group: int) -> Iterator[int]:
    """The units that have a colour group."""
    return (number for number, unit in enumerate(units) if (unit.groups == group).any())
