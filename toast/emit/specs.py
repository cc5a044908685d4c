"""From the axes on items (bits) to PartitionSpecs, and the places that a plan must pin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toast.analysis.facts import CONSTRAINT
from toast.analysis.names import Bools
from toast.analysis.program import ARGUMENT, Ints
from toast.costmodel.evaluator import Action, Evaluator, Refined
from toast.costmodel.terms.partial_sums import PARTIAL_SUMS
from toast.emit.axis_order import axis_orders
from toast.emit.partitioner_guards import guarded_ops
from toast.plans.plan import Spec

PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A value pinned to a layout: at its definition, or at these of its `uses` only.

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
    """The layouts that one state gives to the values and uses of a program.

    `values` and `uses` are pinned layouts, which the state does not decide. Elsewhere the axes of a
    dimension are in the order of `axis_orders`.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        state: Refined,
        *,
        values: Mapping[int, Spec] | None = None,
        uses: Mapping[int, Spec] | None = None,
    ) -> None:
        self._given_values = values or {}
        self._given_uses = uses or {}
        self._program = evaluator.analysis.program
        self._layouts = evaluator.layouts
        self._listing = evaluator.listing
        self._in_turn = evaluator.tables.chip.sums_in_turn
        self._flattens = evaluator.profile.reduce_scatter_creator.flattens_unit_dims
        self._whole = evaluator.tables.mesh.summed_whole
        self._reduced = [items for items, *_ in evaluator.listing.of(PARTIAL_SUMS).rows]
        self._masks = evaluator.masks(state).tolist()
        self._names = [axis.name for axis in evaluator.mesh.axes]
        self._group = [item[0] for unit, _ in self._layouts.units for item in unit]
        axes_of: dict[int, set[int]] = {}
        for group, axis in self._taken(state):
            axes_of.setdefault(group, set()).add(axis)
        self._order = axis_orders(
            axes_of,
            self._masks,
            self._program,
            self._layouts,
            evaluator.listing.of(PARTIAL_SUMS).rows,
        )
        self._tensors: dict[int, Spec] = {}
        self._wants: dict[tuple[int, int], _Move] = {}
        self._makes: dict[tuple[int, int], _Move] = {}
        self._left: dict[tuple[int, ...], bool] = {}
        self._value_tensor, self._use_tensor, self._result_tensor = (
            column.data
            for column in (
                self._layouts.value_tensor,
                self._layouts.use_tensor,
                self._layouts.result_tensor,
            )
        )

    def _taken(self, state: Refined) -> Iterator[tuple[int, int]]:
        """The colour groups that get an axis, in order."""
        starts = self._layouts.unit_start
        for decision in state:
            if isinstance(decision, Action):
                yield decision.group, decision.axis
            else:
                for unit, item in decision.places:
                    if item >= 0:
                        yield self._group[starts[unit] + item], decision.axis

    def value(self, value: int) -> Spec:
        """Layout of a value at its definition."""
        given = self._given_values.get(value)
        return self.tensor(self._value_tensor[value]) if given is None else given

    def use(self, use: int) -> Spec:
        """Layout in which a use wants its value."""
        given = self._given_uses.get(use)
        return self.tensor(self._use_tensor[use]) if given is None else given

    def tensor(self, tensor: int) -> Spec:
        """Layout of an interned tensor."""
        found = self._tensors.get(tensor)
        if found is None:
            _, dims = self._layouts.tensors[tensor]
            found = self._tensors[tensor] = [self._axes(item) for _, item in dims]
        return found

    def _kept(self, value: int) -> int:
        """Equal for values of one layout: the number of a tensor, below zero for what is given."""
        return -1 - value if value in self._given_values else self._value_tensor[value]

    def _wanted(self, kept: int, spec: Spec, use: int) -> _Move:
        """The move from a layout to that in which a use wants its value."""
        given = self._given_uses.get(use)
        if given is not None:
            return _Move.of(spec, given)
        tensor = self._use_tensor[use]
        if (kept, tensor) not in self._wants:
            self._wants[kept, tensor] = _Move.of(spec, self.tensor(tensor))
        return self._wants[kept, tensor]

    def _made(self, value: int) -> _Move:
        """The move from the layout in which a value is computed to that in which it is kept."""
        key = (self._result_tensor[value], self._kept(value))
        if key not in self._makes:
            self._makes[key] = _Move.of(self.tensor(key[0]), self.value(value))
        return self._makes[key]

    def _axes(self, item: int) -> list[str]:
        if item < 0 or not self._masks[item]:
            return []
        order = self._order.get(self._group[item], range(len(self._names)))
        return [self._names[axis] for axis in order if self._masks[item] >> axis & 1]

    def pins(self) -> list[Pin]:
        """Where XLA must be told, as it would do otherwise by itself.

        Of results that are made otherwise than they are kept, uses that want another layout than
        the value's, and operands of guarded ops. Then whatever meets in an op agrees on it, and
        Shardy's propagation has nothing to choose; more would be in the way of XLA's rewrites.
        """
        guarded = frozenset(guarded_ops(self._program)) if any(self._masks) else frozenset()
        uses = self._uses()
        left = {pin.value for pin in uses}
        return self._definitions(guarded, left) + uses + self._operands(guarded)

    def _operands(self, guarded: frozenset[int]) -> list[Pin]:
        """Operands that are wanted as they are defined, where an op must be told.

        Of guarded ops the first, and all of ops of which only the layout is told that their sums
        are kept in.
        """
        program = self._program
        told = [program.uses_of(op).start for op in sorted(guarded)]
        parted = {program.makers[value] for value in np.flatnonzero(self._is_moved()).tolist()}
        for op in sorted(parted - guarded):
            if self._is_left_to_xla(op):
                told += program.uses_of(op)
        found = []
        for use in told:
            value = program.sources[use]
            if not program.constant[value] and self.use(use) == self.value(value):
                found.append(Pin(value=value, spec=self.use(use), uses=(use,)))
        return found

    def _is_left_to_xla(self, op: int) -> bool:
        """Whether XLA, told what an op's sums are made as, would not scatter them as it can.

        It sums over all axes first where not all of them come to a dimension, where they come in
        another order than that in which it sums over them, or the mesh's, where the dimension is
        sharded already, and where it is that of the rows of a product that has dimensions of 1.
        """
        row = self._listing.of(PARTIAL_SUMS).of_op.get(op)
        if row is None:
            return False
        values = self._program.values_of(op)
        computed = (self._result_tensor[value] for value in values)
        rows = self._rows(op)
        key = (row, rows, *computed, *(self._kept(value) for value in values))
        if key not in self._left:
            self._left[key] = self._scatters_otherwise(op, row, rows)
        return self._left[key]

    def _scatters_otherwise(self, op: int, row: int, rows: int) -> bool:
        """The same: it is equal for ops of one row of sums that are laid out alike."""
        parts = [axes for item in self._reduced[row] if (axes := self._axes(item))]
        summed = [axis for axes in parts for axis in axes]
        orders = [sorted(summed, key=self._names.index)]
        if len(parts) == 1 or self._in_turn:
            orders.append(summed)
        for value in self._program.values_of(op):
            computed = self.tensor(self._result_tensor[value])
            have = {axis for axes in computed for axis in axes}
            taken = [axis for axes in self.value(value) for axis in axes if axis in summed]
            taken = [axis for axis in taken if axis not in have]
            grown = any(
                before and set(after) & set(taken)
                for before, after in zip(computed, self.value(value), strict=True)
            )
            if taken and (taken not in orders or grown):
                return True
            if taken and self._is_scattered_by_rows(value, taken, rows):
                return True
        return False

    def _rows(self, op: int) -> int:
        """The dimension of the rows of a product that is a matrix but for dimensions of 1, or -1.

        A TPU multiplies matrices, and puts those dimensions back for what it is told of the result.
        What it sums then it does not scatter by rows.
        """
        program, value = self._program, self._program.values_of(op)[0]
        shape = program.shape(value)
        if not self._flattens or program.kind(op) != PRODUCT or 1 not in shape:
            return -1
        left = program.use_names(program.uses_of(op)[0])
        rows = np.flatnonzero((np.array(shape) > 1) & np.isin(program.def_names(value), left))
        return int(rows[0]) if len(rows) == 1 else -1

    def _is_scattered_by_rows(self, value: int, taken: list[str], rows: int) -> bool:
        """Whether one axis comes to the rows, if there are such.

        What a chip sums whole in any case it is told, and sums over several axes, which it would
        scatter block by block while it multiplies.
        """
        if rows < 0 or len(taken) > 1 or 1 << self._names.index(taken[0]) == self._whole:
            return False
        return taken[0] in self.value(value)[rows]

    def _definitions(self, guarded: frozenset[int], left: set[int]) -> list[Pin]:
        """Pins where values are defined; `left` are those that a use wants otherwise.

        Shardy takes what such a use is pinned to for the layout of the value itself, if nothing
        else is said of that; and what a value is kept in for the layout in which it is made, so
        that it is told both.
        """
        program = self._program
        told = self._is_moved()
        told[[*left, *(value for op in guarded for value in program.values_of(op))]] = True
        by_module = [n for n, name in enumerate(program.names) if name in (ARGUMENT, CONSTRAINT)]
        told &= ~program.constant & ~np.isin(program.op_name[program.value_op], by_module)
        found = []
        for value in np.flatnonzero(told).tolist():
            move, op = self._made(value), program.makers[value]
            through = move.through
            if move.moves and (op in guarded or not self._is_left_to_xla(op)):
                through = (move.start, *through)
            found.append(Pin(value=value, spec=move.to, through=through))
        return found

    def _is_moved(self) -> Bools:
        """For each value whether its op makes it in another layout than it is kept in."""
        layouts = self._layouts
        found = self._differ(layouts.result_tensor, layouts.value_tensor)
        for value, spec in self._given_values.items():
            found[value] = self.tensor(int(layouts.result_tensor[value])) != spec
        return found

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
        """For each value whether a use may want it in another layout than it is kept in."""
        program, layouts = self._program, self._layouts
        moved = self._differ(layouts.value_tensor[program.use_value], layouts.use_tensor)
        given = [program.sources[use] for use in self._given_uses]
        found = np.zeros(program.values, dtype=np.bool_)
        found[program.use_value[moved]] = True
        found[[*given, *self._given_values]] = True
        return found

    def _uses(self) -> list[Pin]:
        found, wants = list[Pin](), self._listing.wanted
        for place in np.flatnonzero(self._moving()[wants.valued]).tolist():
            value = int(wants.valued[place])
            kept, spec = self._kept(value), self.value(value)
            by_spec: dict[str, tuple[_Move, list[int]]] = {}
            for _, (_, uses) in wants.targets(place):
                move = self._wanted(kept, spec, uses[0])
                told = [use for use in uses if not self._is_told(use)] if move.moves else []
                if told:
                    by_spec.setdefault(move.text, (move, []))[1].extend(told)
            found += [
                Pin(value=value, spec=move.to, uses=tuple(sorted(uses)), through=move.through)
                for move, uses in by_spec.values()
            ]
        return found

    def _is_told(self, use: int) -> bool:
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
