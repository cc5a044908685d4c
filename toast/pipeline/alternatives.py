"""What each colour of a plan would cost otherwise: the plan's decisions with that one changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import Ints
from toast.costmodel.evaluator import Action, Cost, Refined, Refinement
from toast.costmodel.program_facts import Bools
from toast.costmodel.resolved import ResolvedPlan, axis_orders, item_axes
from toast.labels.decisions import resolution
from toast.labels.layers import argument_patterns
from toast.plans.alternatives import Alternative, MovedTensors, PlanColour
from toast.plans.argument_groups import merge_argument_groups
from toast.plans.plan import Group
from toast.search.problem import Found, Problem

SHARE = 20
"""One evaluation for so many of the search: the alternatives take a small part of its time."""
FEWEST, MOST = 48, 400
"""Evaluations that there is always room for, and that are enough."""
KEPT = 8
"""Alternatives of one colour in a plan, the cheapest."""
MOVED = 5
"""Groups of arguments that an alternative names."""
FLIPPED = 4
"""Bits of a resolution order that are tried the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    state: Refined
    cost: Cost
    masks: Ints
    orders: Ints


def plan_colours(
    problem: Problem, resolved: ResolvedPlan, found: Found, names: Sequence[str], wanted: set[int]
) -> list[PlanColour]:
    """The colours that decisions are on, then those `wanted` and those of other actions.

    `wanted` are the colour groups that tensors of the plan refer to. Each colour is priced as
    long as there is room: those with decisions come first.
    """
    return _Alternatives(problem, resolved, names).rows(wanted, _room(found))


def _room(found: Found) -> int:
    return min(MOST, max(FEWEST, found.evaluations // SHARE))


class _Alternatives:
    def __init__(self, problem: Problem, resolved: ResolvedPlan, names: Sequence[str]) -> None:
        self._problem = problem
        self._resolved = resolved
        self._names = names
        self._axes = sorted({action.axis for action in problem.actions})
        self._moves = _Moves(resolved)
        self._decided = {action.group for action in self._actions()}
        self._bits: dict[int, list[int]] = {}
        for action in problem.actions:
            self._bits.setdefault(action.group, []).append(action.bits)

    def rows(self, wanted: set[int], room: int) -> list[PlanColour]:
        """One row for each colour; at most `room` states are priced."""
        decided = dict.fromkeys(action.group for action in self._actions())
        rest = dict.fromkeys(group for group in sorted(wanted) if group not in decided)
        free = dict.fromkeys(group for group in self._bits if group not in decided | rest)
        rows = []
        for group in (*decided, *rest, *free):
            states = list(dict.fromkeys(self._states(group)))
            rows.append(self._row(group, states[:room], len(states[room:])))
            room -= len(states[:room])
        return rows

    def _row(self, group: int, states: Sequence[Refined], unpriced: int) -> PlanColour:
        axes = self._problem.evaluator.mesh.axes
        mine = [
            (number, decision)
            for number, decision in enumerate(self._resolved.state, 1)
            if isinstance(decision, Action) and decision.group == group
        ]
        priced = {one.cost.key: one for one in map(self._priced, states)}
        priced.pop(self._resolved.cost.key, None)
        best = sorted(priced.values(), key=lambda one: self._problem.reward.of(one.cost))
        return PlanColour(
            id=group,
            name=self._names[group],
            axes=[axes[decision.axis].name for _, decision in mine],
            decisions=[number for number, _ in mine],
            alternatives=[self._alternative(group, one) for one in best[:KEPT]],
            unpriced=unpriced,
        )

    def _alternative(self, group: int, one: _Priced) -> Alternative:
        axes = self._problem.evaluator.mesh.axes
        mine = [a for a in one.state if isinstance(a, Action) and a.group == group]
        moved = list(self._moves.of(one))
        return Alternative(
            axes=[axes[action.axis].name for action in mine],
            resolution=resolution(self._problem, mine[0]) if mine else "",
            first=bool(mine) and group not in self._decided and one.state[0] == mine[0],
            step_seconds=one.cost.seconds,
            compute_seconds=one.cost.compute,
            communication_seconds=one.cost.communication,
            peak_bytes=round(one.cost.peak),
            fits=one.cost.peak <= self._problem.reward.memory,
            cost=self._problem.reward.of(one.cost),
            moved=moved[:MOVED],
            others_moved=sum(row.count for row in moved[MOVED:]),
        )

    def _priced(self, state: Refined) -> _Priced:
        # In arrays that priced another state before, orders that no price asks for are that one's.
        scratch = self._problem.evaluator.new_scratch()
        cost = self._problem.evaluator.cost(state, scratch)
        return _Priced(
            state=state, cost=cost, masks=scratch.units.mask, orders=axis_orders(scratch)
        )

    def _actions(self) -> Iterator[Action]:
        yield from (one for one in self._resolved.state if isinstance(one, Action))

    def _states(self, group: int) -> Iterator[Refined]:
        """The states in which one colour is otherwise, those that say most first."""
        state = self._resolved.state
        mine = [one for one in self._actions() if one.group == group]
        if not mine:
            yield from self._over(group, state)
            return
        here = {action.axis for action in mine}
        others = [axis for axis in self._axes if axis not in here]
        yield _changed(state, dict.fromkeys(mine))
        for axis in others:
            if len(mine) == 1:
                yield _changed(state, {mine[0]: _on(mine[0], axis=axis)})
            yield self._added(_on(mine[-1], axis=axis))
        for action in mine if len(mine) > 1 else ():
            yield _changed(state, {action: None})
        for bit in range(min(FLIPPED, _sets(self._problem, group))):
            yield _changed(state, {a: _on(a, bits=a.bits ^ 1 << bit) for a in mine})

    def _over(self, group: int, state: Refined) -> Iterator[Refined]:
        """A colour without decisions over each axis: behind the decisions, and before them."""
        bits = self._bits.get(group, [])
        for axis in self._axes:
            for one in dict.fromkeys((*bits[:1], *bits[-1:])):
                action = Action(group=group, axis=axis, bits=one)
                yield self._added(action)
                if any(a.axis == axis for a in self._actions()):
                    yield (action, *state)

    def _added(self, action: Action) -> Refined:
        """The plan with one more action, before its refinements."""
        state = self._resolved.state
        refined = tuple(one for one in state if isinstance(one, Refinement))
        return (*self._actions(), action, *refined)


class _Moves:
    """Says which arguments lie otherwise than in the plan."""

    def __init__(self, resolved: ResolvedPlan) -> None:
        evaluator = resolved.evaluator
        self._resolved = resolved
        self._units = evaluator.tables.units
        self._names = [axis.name for axis in evaluator.mesh.axes]
        self._program = evaluator.analysis.program
        self._arguments = self._program.arguments
        self._patterns = argument_patterns(self._program)
        tensors = evaluator.layouts.value_tensor
        self._dims = [
            [item for _, item in evaluator.layouts.tensors[int(tensors[one.value])][1]]
            for one in self._arguments
        ]
        flat = [(number, item) for number, dims in enumerate(self._dims) for item in dims]
        there = [(number, item) for number, item in flat if item >= 0]
        self._number, self._item = np.array(there, dtype=np.int64).reshape(-1, 2).T

    def of(self, one: _Priced) -> Iterator[MovedTensors]:
        """The arguments that change, those of one pattern and layout together, largest first."""
        rows: dict[str, Group] = {}
        for number in np.unique(self._number[self._may_differ(one)]).tolist():
            argument, spec = self._arguments[number], self._spec(number, one.masks, one.orders)
            if spec == self._spec(number, self._resolved.masks, self._resolved.orders):
                continue
            shape, dtype = self._program.shape(argument.value), self._program.dtype(argument.value)
            key = f"{self._patterns[number]} {shape} {dtype} {spec}"
            known = rows.get(key)
            rows[key] = Group(
                name=self._patterns[number],
                shape=list(shape),
                dtype=dtype,
                spec=spec,
                arguments=[*(known.arguments if known else []), number],
            )
        yield from map(_moved, sorted(merge_argument_groups(rows.values()), key=_elements))

    def _may_differ(self, one: _Priced) -> Bools:
        """Of each item if its axes are others, or may be in another order."""
        masks, group = one.masks[self._item], self._units.item_group[self._item]
        turned = (one.orders != self._resolved.orders).any(axis=1)
        several = (masks & (masks - 1)) != 0
        differ: Bools = masks != self._resolved.masks[self._item]
        return differ | (several & (group >= 0) & turned[group])

    def _spec(self, number: int, masks: Ints, orders: Ints) -> list[list[str]]:
        return [
            [self._names[axis] for axis in item_axes(self._units, masks, orders, item)]
            for item in self._dims[number]
        ]


def _moved(group: Group) -> MovedTensors:
    return MovedTensors(name=group.name, count=len(group.arguments), spec=group.spec)


def _elements(group: Group) -> int:
    """The largest first."""
    return -math.prod(group.shape) * len(group.arguments)


def _changed(state: Refined, changes: dict[Action, Action | None]) -> Refined:
    """A state with actions replaced, or left out; what is doubled then is there once."""
    found: Iterable[Action | Refinement | None] = (
        changes.get(one, one) if isinstance(one, Action) else one for one in state
    )
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _on(action: Action, axis: int | None = None, bits: int | None = None) -> Action:
    return Action(
        group=action.group,
        axis=action.axis if axis is None else axis,
        bits=action.bits if bits is None else bits,
    )


def _sets(problem: Problem, group: int) -> int:
    return int((problem.evaluator.analysis.groups.set_colour == group).sum())
