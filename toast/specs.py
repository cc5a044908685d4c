"""From the axes on items (bits) to PartitionSpecs, and the places that a plan must pin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.facts import CONSTRAINT
from analysis.program import Program
from costmodel.evaluator import Action, Evaluator, Refined
from costmodel.layouts import Unit
from toast.guards import guarded_ops
from toast.planfile import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A value pinned to a layout: at its definition, or at these of its `uses` only.

    `through` are layouts to pass on the way there, which only reorder the axes of dimensions.
    """

    value: int
    spec: Spec
    uses: tuple[int, ...] = ()
    through: tuple[Spec, ...] = ()


class Specs:
    """The layouts that one state gives to the values and uses of a program.

    `values` and `uses` are pinned layouts, which the state does not decide. Elsewhere the axes of a
    dimension are in the order in which the state's actions put them there.
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
        self._wanted = evaluator.listing.wanted
        self._masks = evaluator.masks(state).tolist()
        self._names = [axis.name for axis in evaluator.mesh.axes]
        self._group = [item[0] for unit, _ in self._layouts.units for item in unit]
        self._order = self._axis_orders(state)
        self._tensors: dict[int, Spec] = {}

    def _axis_orders(self, state: Refined) -> dict[int, list[int]]:
        """For each colour group its axes, the one that stands alone most often first.

        Where an axis is dropped at some ops, the rest must be a prefix: XLA then gathers or
        scatters it in place, and otherwise reshuffles the whole tensor first.
        """
        taken: dict[int, list[int]] = {}
        for group, axis in self._taken(state):
            axes = taken.setdefault(group, [])
            if axis not in axes:
                axes.append(axis)
        seen = self._occurrences()
        return {
            group: sorted(axes, key=lambda axis: (-seen.get((group, axis), 0), axes.index(axis)))
            for group, axes in taken.items()
        }

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

    def _occurrences(self) -> dict[tuple[int, int], int]:
        """How many definitions and uses have an axis on a dimension of a group."""
        layouts = self._layouts
        places = [layouts.use_tensor, layouts.value_tensor, layouts.result_tensor]
        counts = np.bincount(np.concatenate(places), minlength=len(layouts.tensors))
        seen: dict[tuple[int, int], int] = {}
        for count, (_, dims) in zip(counts.tolist(), layouts.tensors, strict=True):
            for _, item in dims:
                mask = self._masks[item] if item >= 0 else 0
                for axis in range(len(self._names)):
                    if mask >> axis & 1:
                        key = (self._group[item], axis)
                        seen[key] = seen.get(key, 0) + count
        return seen

    def value(self, value: int) -> Spec:
        """Layout of a value at its definition."""
        given = self._given_values.get(value)
        return self.tensor(int(self._layouts.value_tensor[value])) if given is None else given

    def use(self, use: int) -> Spec:
        """Layout in which a use wants its value."""
        given = self._given_uses.get(use)
        return self.tensor(int(self._layouts.use_tensor[use])) if given is None else given

    def tensor(self, tensor: int) -> Spec:
        """Layout of an interned tensor."""
        found = self._tensors.get(tensor)
        if found is None:
            _, dims = self._layouts.tensors[tensor]
            found = self._tensors[tensor] = [self._axes(item) for _, item in dims]
        return found

    def _axes(self, item: int) -> list[str]:
        if item < 0 or not self._masks[item]:
            return []
        order = self._order.get(self._group[item], range(len(self._names)))
        return [self._names[axis] for axis in order if self._masks[item] >> axis & 1]

    def pins(self) -> list[Pin]:
        """Where XLA must be told: results that are scattered, conflicts, and resharded uses."""
        guarded = frozenset(guarded_ops(self._program)) if any(self._masks) else frozenset()
        return self._definitions(guarded) + self._uses() + self._guards(guarded)

    def _guards(self, guarded: frozenset[int]) -> list[Pin]:
        """First operands of guarded ops that are wanted as they are defined."""
        program = self._program
        found = []
        for op in sorted(guarded):
            use = program.uses_of(op).start
            value = program.sources[use]
            if not program.constant[value] and self.use(use) == self.value(value):
                found.append(Pin(value=value, spec=self.use(use), uses=(use,)))
        return found

    def _definitions(self, guarded: frozenset[int]) -> list[Pin]:
        program, layouts = self._program, self._layouts
        found = []
        for value in np.flatnonzero(~program.constant).tolist():
            op = program.makers[value]
            if program.kind(op) in ("argument", CONSTRAINT):
                continue
            spec = self.value(value)
            computed = self.tensor(int(layouts.result_tensor[value]))
            guard = op in guarded
            if computed != spec or guard or (any(spec) and self._resolved_here(program, value)):
                through = stations(computed, spec)
                if guard and computed != spec:
                    through = (computed, *through)
                found.append(Pin(value=value, spec=spec, through=through))
        return found

    def _resolved_here(self, program: Program, value: int) -> bool:
        """Whether a conflict first appears on this value: no operand of its op has one."""
        layouts = self._layouts
        if not _in_conflict(layouts.units[int(layouts.value_unit[value])]):
            return False
        uses = program.uses_of(program.makers[value])
        operands = [int(layouts.value_unit[program.sources[use]]) for use in uses]
        return not any(_in_conflict(layouts.units[unit]) for unit in operands)

    def _uses(self) -> list[Pin]:
        found = []
        for value, targets in self._wanted.items():
            spec = self.value(value)
            by_spec: dict[str, tuple[Spec, list[int]]] = {}
            for _, uses in targets.values():
                wanted = self.use(uses[0])
                told = [use for use in uses if not self._is_told(use)]
                if wanted != spec and told:
                    by_spec.setdefault(str(wanted), (wanted, []))[1].extend(told)
            found += [
                Pin(
                    value=value,
                    spec=wanted,
                    uses=tuple(sorted(uses)),
                    through=stations(spec, wanted),
                )
                for wanted, uses in by_spec.values()
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


def _in_conflict(unit: Unit) -> bool:
    return any(item[2] >= 0 for item in unit[0])
