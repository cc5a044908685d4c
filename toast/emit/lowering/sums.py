"""Where partial sums are put together: at the op that makes them, or at an addition behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.load import Source
from toast.analysis.program import FactorKind
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.lowering.reductions import combining
from toast.emit.specs import Specs
from toast.plans.plan import Spec

_TRANSPOSE = "stablehlo.transpose"
_PASSED = frozenset({_TRANSPOSE, "stablehlo.reshape"})
_ADD = "stablehlo.add"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialSum:
    """What is left to do with a value: sum it over `axes`, `scattered` of them into its parts."""

    axes: tuple[str, ...]
    scattered: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOn:
    """The layouts of what an op is `given` and has `made`, which are partial over `axes`."""

    given: Spec
    made: Spec
    axes: tuple[str, ...]


class PlannedSums:
    """The partial sums of a plan, as it decides about them."""

    def __init__(self, source: Source, resolved: ResolvedPlan, specs: Specs) -> None:
        self._source, self._program, self._specs = source, source.program, specs
        self._resolved = resolved
        self._layouts = resolved.evaluator.layouts
        self._names = [axis.name for axis in resolved.evaluator.mesh.axes]
        self._once = np.bincount(self._program.use_value, minlength=self._program.values) == 1
        self._moved_in: dict[int, PassedOn] = {}
        self._beside: set[int] = set()
        self._partials: dict[int, _Partial] = {}
        self._ended: set[int] = set()
        self._later, self._carried = self._find_later()

    def reduced(self, op: int) -> tuple[str, ...]:
        """The axes over which an op makes partial results, as the mesh has them."""
        program, layouts = self._program, self._layouts
        start = layouts.unit_start[layouts.op_unit[op]]
        found = set[int]()
        for index, name in enumerate(program.factors_of(op)):
            if program.factor_kind[name] == FactorKind.REDUCTION:
                found.update(self._resolved.axes_of(start + index))
        return tuple(self._names[axis] for axis in sorted(found))

    def of(self, op: int, place: int, reduced: tuple[str, ...]) -> PartialSum | None:
        """What is to be done with a result of an op that is partial over `reduced`."""
        if op in self._carried:
            return self._carried[op]
        if not reduced:
            return None
        return PartialSum(axes=reduced, scattered=self._scattered(op, place))

    def _scattered(self, op: int, place: int) -> frozenset[str]:
        return frozenset(self._names[axis] for axis in self._resolved.scattered(op, place))

    def is_later(self, value: int) -> bool:
        """Whether a value stays partial, as what it is added to is."""
        return value in self._later

    def passed_on(self, op: int) -> PassedOn | None:
        """How an op on what is partial is computed; None of all other ops."""
        return self._moved_in.get(op)

    def is_beside(self, op: int) -> bool:
        """Whether an op adds to partial sums what is whole, or what was added to such."""
        return op in self._beside

    def _find_later(self) -> tuple[frozenset[int], dict[int, PartialSum]]:
        """Values that are summed once they are added to others, and the ops that then make sums."""
        partial = self._partials
        program, carried = self._program, dict[int, PartialSum]()
        for op in range(program.ops):
            made = self._partial(op, partial)
            if made is not None:
                partial[program.values_of(op).start] = made
            elif self._ends(op):
                self._ended.add(program.values_of(op).start)
        later = frozenset[int]().union(*(one.before for one in partial.values() if one.joined))
        for value, one in partial.items():
            if one.before & later:
                op = program.makers[value]
                carried[op] = one.sum
                sources = [program.sources[use] for use in program.uses_of(op)]
                given = next(partial[source] for source in sources if source in one.before)
                self._moved_in[op] = PassedOn(
                    given=given.layout, made=one.layout, axes=one.sum.axes
                )
                if one.beside:
                    self._beside.add(op)
        return later, carried

    def _partial(self, op: int, partial: dict[int, _Partial]) -> _Partial | None:
        """What the one result of an op is, if it is partial."""
        program = self._program
        values, uses = program.values_of(op), program.uses_of(op)
        if len(values) != 1:
            return None
        if self.reduced(op):
            return self._begun(op)
        here = [use for use in uses if program.sources[use] in partial]
        known = [partial[program.sources[use]] for use in here]
        if not known or not all(map(self._is_alone, here)):
            return None
        first, kind = known[0], program.kind(op)
        layout, alone = None, len(here) < len(uses)
        if all(self._is_kept(use, first.layout) for use in here):
            if kind in _PASSED and not first.beside:
                layout = self._passed(op, first.layout)
            elif kind == _ADD and (self._is_beside(op, here) if alone else _are_joined(known)):
                layout = first.layout
        if layout is None:
            return None
        scattered = frozenset[str]().union(*(one.sum.scattered for one in known))
        before = frozenset(program.sources[use] for use in here)
        return _Partial(
            sum=PartialSum(axes=first.sum.axes, scattered=scattered),
            layout=layout,
            before=before.union(*(one.before for one in known)),
            added=any(one.added for one in known),
            joined=any(one.joined for one in known) or (kind == _ADD and not alone),
            beside=alone or any(one.beside for one in known),
        )

    def _is_beside(self, op: int, partial: list[int]) -> bool:
        """Whether partial sums may wait for others beside what is added to them.

        The price lets scatters wait, and products where other products were added before. What is
        added is laid out as the result is kept, all the way to the sum.
        """
        program, (value,) = self._program, self._program.values_of(op)
        kept, starts = self._specs.value(value), self._program.readers
        whole = [use for use in program.uses_of(op) if use not in partial]
        later = starts[1][starts[0][value] : starts[0][value + 1]].tolist()
        following = [one for use in later for one in program.values_of(program.user(use))]
        return (
            all(self._specs.use(use) == kept for use in (*whole, *later))
            and all(self._specs.value(one) == kept for one in following)
            and (
                all(program.sources[use] in self._ended and self._is_alone(use) for use in whole)
                or all(self._scatters(program.sources[use]) for use in partial)
            )
        )

    def _ends(self, op: int) -> bool:
        """Whether an op adds to sums that are complete, or passes one on."""
        program, uses = self._program, self._program.uses_of(op)
        known = [
            use
            for use in uses
            if program.sources[use] in self._ended or program.sources[use] in self._partials
        ]
        if program.kind(op) in _PASSED:
            return bool(known) and all(map(self._is_alone, known))
        return program.kind(op) == _ADD and any(map(self._is_alone, known))

    def _scatters(self, value: int) -> bool:
        """Whether a partial value is made of scatters alone."""
        program, op = self._program, self._program.makers[value]
        if program.kind(op) == "stablehlo.scatter":
            return True
        return program.kind(op) == _ADD and all(
            self._scatters(program.sources[use])
            for use in program.uses_of(op)
            if program.sources[use] in self._partials
        )

    def _begun(self, op: int) -> _Partial | None:
        """The partial results of an op, if they may be summed elsewhere."""
        if not self.is_sum(op):
            return None
        return _Partial(
            sum=PartialSum(axes=self.reduced(op), scattered=self._scattered(op, 0)),
            layout=self._made(self._program.values_of(op).start),
            before=frozenset(),
            added=self._resolved.is_added(op),
            joined=False,
            beside=False,
        )

    def is_kept(self, op: int) -> bool:
        """Whether the one result of an op is kept as it is made, but for the sum."""
        value = self._program.values_of(op).start
        return self._made(value) == self._specs.value(value)

    def is_sum(self, op: int) -> bool:
        """Whether an op adds up, and is always computed over all axes as planned."""
        handle = self._source.handles[op]
        match self._program.kind(op):
            case "stablehlo.dot_general":
                return True
            case "stablehlo.convolution":
                groups = ("feature_group_count", "batch_group_count")
                return all(int(handle.attributes[name].value) == 1 for name in groups)
            case "stablehlo.scatter":
                return combining(handle) == _ADD
            case _:
                return False

    def _passed(self, op: int, layout: Spec) -> Spec | None:
        """The layout of what an op only moves, in this layout; None where that is not known."""
        if self._program.kind(op) == _TRANSPOSE:
            order = self._source.handles[op].attributes["permutation"]
            return [layout[int(dim)] for dim in order]
        same = self._specs.use(self._program.uses_of(op).start) == layout
        return self._made(self._program.values_of(op).start) if same else None

    def _made(self, value: int) -> Spec:
        return self._specs.tensor(int(self._layouts.result_tensor[value]))

    def _is_alone(self, use: int) -> bool:
        """Whether a use alone reads a value, as often as it is made."""
        program, value = self._program, self._program.sources[use]
        often = program.op_trips[program.makers[value]] == program.op_trips[program.user(use)]
        return bool(self._once[value] and often)

    def _is_kept(self, use: int, layout: Spec) -> bool:
        """Whether a use wants a value as it is kept, or in this layout."""
        return self._specs.use(use) in (layout, self._specs.value(self._program.sources[use]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partial:
    """A value that is partial, in this `layout`.

    Those `before` it are so too, where it is summed in their place. `added` where the price sums
    one of them with others, `joined` where that happened on the way, `beside` where something whole
    was added.
    """

    sum: PartialSum
    layout: Spec
    before: frozenset[int]
    added: bool
    joined: bool
    beside: bool

    def is_like(self, other: _Partial) -> bool:
        """Whether two may be added up before they are summed."""
        return self.layout == other.layout and self.sum.axes == other.sum.axes


def _are_joined(known: list[_Partial]) -> bool:
    return any(one.added for one in known) and all(map(known[0].is_like, known))
