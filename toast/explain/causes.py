"""Which decisions of a plan are behind a collective."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from toast.costmodel.evaluator import Refinement
from toast.costmodel.explain import CollectiveTime
from toast.costmodel.journal import Entry
from toast.costmodel.resolved import ResolvedPlan


class Causes:
    """Leads from collectives to the decisions that shard what they work on.

    Decisions are told by their numbers in the plan, from 1.
    """

    def __init__(self, resolved: ResolvedPlan) -> None:
        evaluator = resolved.evaluator
        self._program = evaluator.analysis.program
        self._layouts = evaluator.layouts
        self._units = evaluator.tables.units
        self._masks = resolved.masks
        self._taken: dict[tuple[int, int], int] = {}
        self._refined: dict[tuple[int, int], list[int]] = {}
        for number, decision in enumerate(resolved.state, 1):
            if isinstance(decision, Refinement):
                for unit, _ in decision.places:
                    self._refined.setdefault((unit, decision.axis), []).append(number)
            else:
                self._taken.setdefault((decision.group, decision.axis), number)
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def of(self, sent: CollectiveTime, value: int, ops: Sequence[int]) -> tuple[int, ...]:
        """The decisions behind the collective that sends a value for some ops."""
        tensor = int(self._layouts.value_tensor[value])
        units = tuple(dict.fromkeys(int(self._layouts.op_unit[op]) for op in ops))
        signature = int(self._program.op_signature[ops[0]])
        key = (sent.why, sent.axes, tensor, units, signature)
        if key not in self._known:
            found = dict.fromkeys(self._numbers(sent, value, ops, units))
            self._known[key] = tuple(sorted(found))
        return self._known[key]

    def _numbers(
        self, sent: CollectiveTime, value: int, ops: Sequence[int], units: Sequence[int]
    ) -> Iterator[int]:
        """What puts one of the collective's axes on what it sums, or on what it moves."""
        if sent.why == Entry.PARTIAL:
            items = list(self._summed(ops[0], units[0])) or list(self._of_units(units))
        elif sent.why == Entry.HALO:
            items = list(self._of_units(units))
        else:
            items = [*self._of_units(units), *self._of_value(value)]
        for axis in sent.axes:
            for item in items:
                group = int(self._units.item_group[item])
                if self._masks[item] >> axis & 1 and (group, axis) in self._taken:
                    yield self._taken[group, axis]
            for unit in units:
                yield from self._refined.get((unit, axis), ())

    def _summed(self, op: int, unit: int) -> Iterator[int]:
        """The items of an op whose factor is no dimension of its results."""
        made = {
            name
            for value in self._program.values_of(op)
            for name in self._program.def_names(value).tolist()
        }
        first = int(self._units.start[unit])
        for place, name in enumerate(self._program.factors_of(op)):
            if name not in made and first + place < int(self._units.start[unit + 1]):
                yield first + place

    def _of_units(self, units: Iterable[int]) -> Iterator[int]:
        for unit in units:
            yield from range(int(self._units.start[unit]), int(self._units.start[unit + 1]))

    def _of_value(self, value: int) -> Iterator[int]:
        _, dims = self._layouts.tensors[int(self._layouts.value_tensor[value])]
        yield from (item for _, item in dims if item >= 0)
