"""From the axes on items (bits) to PartitionSpecs, and the places that a plan must pin."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.program import Program
from costmodel.evaluator import Evaluator, State
from costmodel.rows import edges
from toast.planfile import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A value pinned to a layout: at its definition, or (`ops`) at its uses by these ops."""

    value: int
    spec: Spec
    ops: tuple[int, ...] = ()


class Specs:
    """The layouts that one state gives to the values and uses of a program.

    The axes of a dimension are in the order in which the state's actions put them there.
    """

    def __init__(self, evaluator: Evaluator, state: State) -> None:
        self._program = evaluator.analysis.program
        self._layouts = evaluator.layouts
        self._masks = evaluator.masks(state).tolist()
        self._names = [axis.name for axis in evaluator.mesh.axes]
        self._order: dict[int, list[int]] = {}
        for action in state:
            self._order.setdefault(action.group, []).append(action.axis)
        self._group = [item[0] for unit in self._layouts.units for item in unit]

    def value(self, value: int) -> Spec:
        """Layout of a value at its definition."""
        return self.tensor(int(self._layouts.value_tensor[value]))

    def use(self, use: int) -> Spec:
        """Layout in which a use wants its value."""
        return self.tensor(int(self._layouts.use_tensor[use]))

    def tensor(self, tensor: int) -> Spec:
        """Layout of an interned tensor."""
        _, dims = self._layouts.tensors[tensor]
        return [self._axes(item) for _, item in dims]

    def _axes(self, item: int) -> list[str]:
        if item < 0 or not self._masks[item]:
            return []
        order = dict.fromkeys(self._order[self._group[item]])
        return [self._names[axis] for axis in order if self._masks[item] >> axis & 1]

    def pins(self) -> list[Pin]:
        """Where XLA must be told: results that are scattered, conflicts, and resharded uses."""
        return self._definitions() + self._uses()

    def _definitions(self) -> list[Pin]:
        program, layouts = self._program, self._layouts
        found = []
        for value in range(program.values):
            if program.constant[value] or program.kind(int(program.value_op[value])) == "argument":
                continue
            spec = self.value(value)
            computed = self.tensor(int(layouts.result_tensor[value]))
            if computed != spec or (any(spec) and self._resolved_here(program, value)):
                found.append(Pin(value=value, spec=spec))
        return found

    def _resolved_here(self, program: Program, value: int) -> bool:
        """Whether a conflict first appears on this value: no operand of its op has one."""
        layouts = self._layouts
        if not _in_conflict(layouts.units[int(layouts.value_unit[value])]):
            return False
        uses = program.uses_of(int(program.value_op[value]))
        operands = [int(layouts.value_unit[program.use_value[use]]) for use in uses]
        return not any(_in_conflict(layouts.units[unit]) for unit in operands)

    def _uses(self) -> list[Pin]:
        found = []
        for value, targets in edges(self._program, self._layouts).items():
            spec = self.value(value)
            by_spec: dict[str, tuple[Spec, list[int]]] = {}
            for tensor, (_, ops) in targets.items():
                wanted = self.tensor(tensor)
                if wanted != spec:
                    by_spec.setdefault(str(wanted), (wanted, []))[1].extend(ops)
            found += [
                Pin(value=value, spec=wanted, ops=tuple(sorted(set(ops))))
                for wanted, ops in by_spec.values()
            ]
        return found


def _in_conflict(unit: tuple[tuple[int, int, int, int], ...]) -> bool:
    return any(item[2] >= 0 for item in unit)
