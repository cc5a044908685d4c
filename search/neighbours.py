"""What is one change away from a state: the moves of the local search, site by site.

A change is of one colour group over one or several axes, of groups that are symmetric, or of two
axes. An order is changed only where it matters: between two actions on one axis whose groups meet
in a unit. All others commute, except where not both axes divide a size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise

from toast.costmodel.evaluator import Action, State
from toast.search.problem import Problem
from toast.search.symmetric_groups import symmetry_classes
from toast.search.tree import MAX_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSite:
    """`changes` gives the states that differ from one at these groups; without groups, at any."""

    groups: tuple[int, ...]
    changes: Callable[[State], list[State]]


class Space:
    """The axes and the groups of a problem's actions.

    `bits` are the resolution orders of each group, `meet` the other groups that share a unit with
    it, `symmetric` the sets of several groups that are symmetric.
    """

    def __init__(self, problem: Problem) -> None:
        self.symmetric = [groups for groups in symmetry_classes(problem) if len(groups) > 1]
        self.axes = sorted({action.axis for action in problem.actions})
        self.bits: defaultdict[int, list[int]] = defaultdict(list)
        for action in problem.actions:
            if action.bits not in self.bits[action.group]:
                self.bits[action.group].append(action.bits)
        self.meet = meetings(problem)

    def sites(self) -> list[ChangeSite]:
        """Where a state can be changed: each group, symmetric groups as one, two axes."""
        symmetric = [
            ChangeSite(groups=groups, changes=partial(_laid_as_one, self, groups))
            for groups in self.symmetric
        ]
        pairs = combinations(self.axes, 2)
        axes = [ChangeSite(groups=(), changes=partial(_exchanged, pair)) for pair in pairs]
        return [*self.sites_of(self.bits), *symmetric, *axes]

    def sites_of(self, groups: Iterable[int]) -> list[ChangeSite]:
        """The sites that are single groups."""
        return [ChangeSite(groups=(g,), changes=partial(_all, self, g)) for g in groups]

    def near(self, groups: Iterable[int]) -> set[int]:
        """Groups and all that they meet."""
        found = set(groups)
        return found.union(*(self.meet[group] for group in found))

    def compete(self, one: Action, other: Action) -> bool:
        """Whether it matters which of two actions comes first."""
        return one.axis == other.axis and other.group in self.meet[one.group]

    def targets(self, axes: set[int]) -> Iterator[set[int]]:
        """Sets of axes near to a set: one more or fewer, one for another, all and none."""
        single = [{axis} for axis in self.axes]
        pairs = [set(pair) for pair in combinations(self.axes, 2)]
        yield from (axes ^ change for change in (*single, *pairs))
        yield set(self.axes)
        yield set()

    def inserted(self, state: State, action: Action) -> Iterator[State]:
        """An action before, between and behind those that it competes with."""
        yield (*state, action)
        for index, other in enumerate(state):
            if self.compete(action, other):
                yield (*state[:index], action, *state[index:])


def _all(space: Space, group: int, state: State) -> list[State]:
    """All that can be done with one group."""
    kinds = (_laid, _resolved, _reordered, _handed_over)
    return _distinct(state, (s for kind in kinds for s in kind(space, group, state)))


def _distinct(state: State, others: Iterator[State]) -> list[State]:
    found = dict.fromkeys(other for other in others if len(other) <= MAX_DEPTH)
    found.pop(state, None)
    return list(found)


def _mine(group: int, state: State) -> list[tuple[int, Action]]:
    return [(index, action) for index, action in enumerate(state) if action.group == group]


def _laid(space: Space, group: int, state: State) -> Iterator[State]:
    """A group over other axes."""
    mine = [action for _, action in _mine(group, state)]
    here = {action.axis for action in mine}
    for bits in {action.bits: None for action in mine} or space.bits[group]:
        for axes in space.targets(here):
            yield from over(state, {group: bits}, axes)
    for axis in space.axes:
        if axis not in here:
            for bits in space.bits[group]:
                yield from space.inserted(state, Action(group=group, axis=axis, bits=bits))


def over(state: State, bits: Mapping[int, int], axes: set[int]) -> Iterator[State]:
    """Groups, each with its resolution order, over these axes and no others.

    New actions come after the rest, or before it.
    """
    kept = tuple(a for a in state if a.group not in bits or a.axis in axes)
    having = {(a.group, a.axis) for a in kept}
    new = tuple(
        Action(group=group, axis=axis, bits=own)
        for group, own in bits.items()
        for axis in sorted(axes)
        if (group, axis) not in having
    )
    yield (*kept, *new)
    yield (*new, *kept)


def _resolved(space: Space, group: int, state: State) -> Iterator[State]:
    """The conflicts of a group otherwise, on one of its axes or on all."""
    mine = _mine(group, state)
    for bits in space.bits[group] if len(space.bits[group]) > 1 else ():
        changed = {index: replaced(action, bits=bits) for index, action in mine}
        for index, other in changed.items():
            yield (*state[:index], other, *state[index + 1 :])
        yield tuple(changed.get(index, action) for index, action in enumerate(state))


def _reordered(space: Space, group: int, state: State) -> Iterator[State]:
    for index, action in _mine(group, state):
        yield from space.inserted((*state[:index], *state[index + 1 :]), action)


def _handed_over(space: Space, group: int, state: State) -> Iterator[State]:
    """What a group has on one axis or on all goes to a group that it meets, or to another axis."""
    mine, having = _mine(group, state), set(state)
    for index, action in mine:
        for other in space.meet[group]:
            for bits in space.bits[other]:
                new = Action(group=other, axis=action.axis, bits=bits)
                if new not in having:
                    yield (*state[:index], new, *state[index + 1 :])
        for axis in space.axes:
            new = replaced(action, axis=axis)
            if new not in having:
                yield (*state[:index], new, *state[index + 1 :])
    for other in space.meet[group] if len(mine) > 1 else ():
        for bits in space.bits[other]:
            yield tuple(
                dict.fromkeys(
                    replaced(a, group=other, bits=bits) if a.group == group else a for a in state
                )
            )


def _laid_as_one(space: Space, groups: Sequence[int], state: State) -> list[State]:
    """Symmetric groups, all over the same axes."""
    bits = {group: space.bits[group][0] for group in groups}
    sets = (set(axes) for size in range(3) for axes in combinations(space.axes, size))
    found = (s for axes in (*sets, set(space.axes)) for s in over(state, bits, axes))
    return _distinct(state, found)


def _exchanged(pair: tuple[int, int], state: State) -> list[State]:
    """Two axes in each other's place."""
    turn = {pair[0]: pair[1], pair[1]: pair[0]}
    return [tuple(replaced(a, axis=turn.get(a.axis, a.axis)) for a in state)]


def replaced(
    action: Action, group: int | None = None, axis: int | None = None, bits: int | None = None
) -> Action:
    """An action with another group, axis or resolution order."""
    return Action(
        group=action.group if group is None else group,
        axis=action.axis if axis is None else axis,
        bits=action.bits if bits is None else bits,
    )


def meetings(problem: Problem) -> dict[int, tuple[int, ...]]:
    """For each colour group of the actions the others that share a unit with it."""
    tables = problem.evaluator.tables
    wanted = {action.group for action in problem.actions}
    found: dict[int, set[int]] = {group: set() for group in sorted(wanted)}
    groups = tables.units.item_group.tolist()
    for first, end in pairwise(tables.units.start.tolist()):
        together = wanted.intersection(groups[first:end])
        for group in together:
            found[group] |= together - {group}
    return {group: tuple(sorted(others)) for group, others in found.items()}
