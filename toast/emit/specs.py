"""From a resolved plan to PartitionSpecs, and the places where its module constrains layouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.names import Bools
from toast.analysis.program import ARGUMENT, CONSTRAINT, Ints
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.partitioner_guards import guarded_ops
from toast.plans.plan import Spec

IOTA = "stablehlo.iota"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutConstraint:
    """A value held to a layout: at its definition, or at these of its `uses` only.

    `through` are layouts to pass on the way there, which only reorder the axes of dimensions.
    """

    value: int
    spec: Spec
    uses: tuple[int, ...] = ()
    through: tuple[Spec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """From one layout to another: if that is a move at all, and its stations.

    Repeated layers have the same ones: each is worked out once.
    """

    start: Spec
    to: Spec
    moves: bool
    text: str
    through: tuple[Spec, ...]

    @classmethod
    def of(cls, start: Spec, to: Spec) -> _Move:
        return cls(start=start, to=to, moves=start != to, text=str(to), through=stations(start, to))


class Specs:
    """The layouts that a resolved plan gives to the values and uses of a program, by axis names."""

    def __init__(self, resolved: ResolvedPlan) -> None:
        evaluator = resolved.evaluator
        self._resolved = resolved
        self._program = evaluator.analysis.program
        self._layouts = evaluator.layouts
        self._listing = evaluator.listing
        self._names = [axis.name for axis in evaluator.mesh.axes]
        self._tensors: dict[int, Spec] = {}
        self._moves: dict[tuple[int, int], _Move] = {}
        self._value_tensor, self._use_tensor, self._result_tensor = (
            column.data
            for column in (
                self._layouts.value_tensor,
                self._layouts.use_tensor,
                self._layouts.result_tensor,
            )
        )

    def value(self, value: int) -> Spec:
        """Layout of a value at its definition."""
        return self.tensor(self._value_tensor[value])

    def use(self, use: int) -> Spec:
        """Layout in which a use wants its value."""
        return self.tensor(self._use_tensor[use])

    def tensor(self, tensor: int) -> Spec:
        """Layout of an interned tensor."""
        found = self._tensors.get(tensor)
        if found is None:
            layout = self._resolved.layout(tensor)
            found = self._tensors[tensor] = [[self._names[axis] for axis in on] for on in layout]
        return found

    def _move(self, start: int, to: int) -> _Move:
        """The move from the layout of one tensor to that of another."""
        key = (start, to)
        if key not in self._moves:
            self._moves[key] = _Move.of(self.tensor(start), self.tensor(to))
        return self._moves[key]

    def constraints(self) -> list[LayoutConstraint]:
        """What a module must constrain, as XLA would lay it out otherwise by itself.

        Results that are made otherwise than they are kept, uses that want another layout than
        the value's, and operands of guarded ops. Then whatever meets in an op agrees on it, and
        Shardy's propagation has nothing to choose; more would be in the way of XLA's rewrites.
        """
        sharded = bool(self._resolved.masks.any())
        guarded = frozenset(guarded_ops(self._program)) if sharded else frozenset()
        uses = self._uses()
        left = {one.value for one in uses}
        return self._definitions(guarded, left) + uses + self._operands(guarded)

    def _operands(self, guarded: frozenset[int]) -> list[LayoutConstraint]:
        """Operands that are wanted as they are defined, where a module constrains them.

        Of guarded ops the first, and all of ops whose results are constrained only to the layout
        that they are kept in. An iota has no layout of its own: Shardy would take that of the
        results, and XLA would move the numbers.
        """
        program = self._program
        uses = [program.uses_of(op).start for op in sorted(guarded)]
        parted = {program.makers[value] for value in np.flatnonzero(self._is_moved()).tolist()}
        for op in sorted(parted - guarded):
            if not self._resolved.constrains_result(op):
                uses += program.uses_of(op)
        found = []
        for use in uses:
            value = program.sources[use]
            own = self.use(use) == self.value(value) and not program.constant[value]
            if own or program.kind(program.makers[value]) == IOTA:
                found.append(LayoutConstraint(value=value, spec=self.use(use), uses=(use,)))
        return found

    def _definitions(self, guarded: frozenset[int], left: set[int]) -> list[LayoutConstraint]:
        """Constraints where values are defined; `left` are those that a use wants otherwise.

        Shardy takes what such a use is constrained to for the layout of the value itself, if
        nothing else is said of that; and what a value is kept in for the layout in which it is
        made, so that a module has both.
        """
        program = self._program
        constrained = self._is_moved() | self._begins_inside()
        constrained[[*left, *(value for op in guarded for value in program.values_of(op))]] = True
        by_module = [n for n, name in enumerate(program.names) if name in (ARGUMENT, CONSTRAINT)]
        constrained &= ~program.constant & ~np.isin(program.op_name[program.value_op], by_module)
        found = []
        for value in np.flatnonzero(constrained).tolist():
            tensors = self._result_tensor[value], self._value_tensor[value]
            move, op = self._move(*tensors), program.makers[value]
            through = move.through
            if move.moves and (op in guarded or self._resolved.constrains_result(op)):
                through = (move.start, *through)
            found.append(LayoutConstraint(value=value, spec=move.to, through=through))
        return found

    def _begins_inside(self) -> Bools:
        """For each value whether a sharded colour begins there that is inside the program only.

        No argument and no result has such a colour, so the module would say it nowhere.
        """
        program, found = self._program, np.zeros(self._program.values, dtype=np.bool_)
        outside = {self._value_tensor[argument.value] for argument in program.arguments}
        outside |= {self._use_tensor[result.use] for result in program.results}
        group = self._resolved.evaluator.tables.units.item_group
        sharded = set(group[self._resolved.masks != 0].tolist())
        inside = sharded.difference([-1], *(self._colours(tensor) for tensor in outside))
        if not inside:
            return found
        tensors = range(len(self._layouts.tensors))
        has = np.array([not inside.isdisjoint(self._colours(tensor)) for tensor in tensors])
        taken = has[self._layouts.use_tensor]
        fed = np.zeros(program.ops, dtype=np.bool_)
        fed[program.use_op[taken]] = True
        return has[self._layouts.value_tensor] & ~fed[program.value_op]

    def _colours(self, tensor: int) -> set[int]:
        """The colour groups that shard a tensor."""
        group, masks = self._resolved.evaluator.tables.units.item_group, self._resolved.masks
        items = [item for _, item in self._layouts.tensors[tensor][1]]
        return {int(group[item]) for item in items if item >= 0 and masks[item]}

    def _is_moved(self) -> Bools:
        """For each value whether its op makes it in another layout than it is kept in."""
        return self._differ(self._layouts.result_tensor, self._layouts.value_tensor)

    def _differ(self, some: Ints, others: Ints) -> Bools:
        """For each pair of tensors whether they are laid out otherwise."""
        count, found = len(self._layouts.tensors), some != others
        apart = np.flatnonzero(found)
        pairs, place = np.unique((some * count + others)[apart], return_inverse=True)
        differ = [
            self.tensor(pair // count) != self.tensor(pair % count) for pair in pairs.tolist()
        ]
        found[apart] = np.array(differ, dtype=np.bool_)[place]
        return found

    def _moving(self) -> Bools:
        """For each value whether a use wants it in another layout than it is kept in."""
        program, layouts = self._program, self._layouts
        moved = self._differ(layouts.value_tensor[program.use_value], layouts.use_tensor)
        found = np.zeros(program.values, dtype=np.bool_)
        found[program.use_value[moved]] = True
        return found

    def _uses(self) -> list[LayoutConstraint]:
        found, wants = list[LayoutConstraint](), self._listing.wanted
        for place in np.flatnonzero(self._moving()[wants.valued]).tolist():
            value = int(wants.valued[place])
            by_spec: dict[str, tuple[_Move, list[int]]] = {}
            for tensor, (_, uses) in wants.targets(place):
                move = self._move(self._value_tensor[value], tensor)
                free = [use for use in uses if not self._is_constrained(use)] if move.moves else []
                if free:
                    by_spec.setdefault(move.text, (move, []))[1].extend(free)
            found += [
                LayoutConstraint(
                    value=value, spec=move.to, uses=tuple(sorted(uses)), through=move.through
                )
                for move, uses in by_spec.values()
            ]
        return found

    def _is_constrained(self, use: int) -> bool:
        """Whether the user is itself a constraint."""
        return self._program.kind(self._program.user(use)) == CONSTRAINT


def stations(have: Spec, want: Spec) -> tuple[Spec, ...]:
    """Layouts between `have` and `want` in which the axes that both have lead each dimension.

    Gathering or adding the axes behind them then touches nothing but those.
    """
    common = [[axis for axis in axes if axis in want[dim]] for dim, axes in enumerate(have)]
    rest = zip(common, have, want, strict=True)
    leaving, arriving = [], []
    for both, here, there in rest:
        leaving.append(both + [axis for axis in here if axis not in both])
        arriving.append(both + [axis for axis in there if axis not in both])
    passed = [leaving] if leaving != have else []
    return (*passed, arriving) if arriving not in (want, leaving) else tuple(passed)
