"""Why something of a plan is as it is: `Plan.explain` and `toast explain DIR NAME`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toast.analysis.errors import InvalidRequest
from toast.plans.alternatives import PlanColour
from toast.plans.explanation import AliveRow, CollectiveRow
from toast.plans.record import Record
from toast.plans.tensors import tensor_patterns
from toast.request.patterns import matches, path, starred

if TYPE_CHECKING:
    from toast.plans.plan import Plan, Tensor

NEAR = 3
"""Names that an error offers in place of one that there is not."""


class ReasonedDimension(Record):
    """One dimension: its size, the mesh axes on it, its colour, and the decisions behind the axes.

    `demanded` are axes that no decision on the colour is behind: a pin, or a refinement.
    """

    size: int
    axes: list[str]
    colour: str
    decisions: list[int]
    demanded: list[str]


class ReasonedTensor(Record):
    """Arguments or results of one pattern of names, with one layout: `count` of them."""

    name: str
    kind: str
    count: int
    shape: list[int]
    shape_per_device: list[int]
    dtype: str
    dimensions: list[ReasonedDimension]


class ReasonedDecision(Record):
    """A decision, and what it bought: seconds of a step and peak bytes before it and after it."""

    number: int
    colour: str
    axis: str
    resolution: str
    resolved: list[str]
    step_seconds_before: float
    step_seconds_after: float
    peak_bytes_before: int
    peak_bytes_after: int


class Reasons(Record):
    """All that a plan knows of the names that match a pattern.

    `decisions` are those behind the layouts, `colours` come with what each would cost otherwise;
    `values` are alive at the peak, `collectives` send a match or exist because of its decisions.
    `step_seconds`, `peak_bytes` and `memory_bytes` are the plan's, to compare with.
    """

    pattern: str
    step_seconds: float
    communication_seconds: float
    peak_bytes: int
    memory_bytes: int
    tensors: list[ReasonedTensor]
    values: list[AliveRow]
    decisions: list[ReasonedDecision]
    colours: list[PlanColour]
    collectives: list[CollectiveRow]

    def __str__(self) -> str:
        """The tables that `toast explain DIR NAME` prints."""
        from toast.plans.reasons_report import text_of

        return text_of(self)


def reasons(plan: Plan, pattern: str) -> Reasons:
    """What `pattern` means in a plan, and why it is as it is.

    The pattern is one of arguments, results, values that are explained, or colours. Raises
    `InvalidRequest` where there is none, or for a plan of a version that kept no reasons.
    """
    if not plan.colours and plan.arguments:
        raise InvalidRequest(
            "The plan holds no reasons; it was written by an earlier version.", "Plan again."
        )
    found = _Matches(plan, pattern)
    found.check()
    groups = found.groups()
    colours = [one for one in plan.colours if one.id in groups]
    numbers = {number for one in colours for number in one.decisions}
    return Reasons(
        pattern=pattern,
        step_seconds=plan.predicted.step_seconds,
        communication_seconds=plan.predicted.communication_seconds,
        peak_bytes=plan.predicted.peak_bytes,
        memory_bytes=plan.memory_bytes,
        tensors=found.tensors(),
        values=found.values,
        decisions=[one for one in _decisions(plan) if one.number in numbers],
        colours=colours,
        collectives=found.collectives(numbers),
    )


class _Matches:
    """What of a plan a pattern matches."""

    def __init__(self, plan: Plan, pattern: str) -> None:
        self._plan = plan
        self._pattern = pattern
        self._names = {one.id: one.name for one in plan.colours}
        rows = plan.explanation
        self._sent: Sequence[CollectiveRow] = rows.collectives if rows else []
        self.arguments = self._of(plan.arguments)
        self.results = self._of(plan.results)
        alive = [one for one in rows.alive if one.why != "argument"] if rows else []
        self.values = [alive[i] for i in matches(pattern, [row.name for row in alive])]
        names = [name for row in self._sent for name in (row.value, row.needed_by)]
        self._said = {names[i] for i in matches(pattern, names)}
        colours = [one.name for one in plan.colours]
        self._colours = [plan.colours[i].id for i, name in enumerate(colours) if name == pattern]

    def _of(self, tensors: Sequence[Tensor]) -> list[tuple[Tensor, str]]:
        """The tensors that match, each with its pattern."""
        named = list(zip(tensors, tensor_patterns(tensors), strict=True))
        if self._pattern.isdigit():
            arguments = tensors is self._plan.arguments
            return [one for one in named if arguments and one[0].index == int(self._pattern)]
        return [named[i] for i in matches(self._pattern, [one.name for one in tensors])]

    def check(self) -> None:
        """Raise `InvalidRequest` where nothing matches."""
        if self.arguments or self.results or self.values or self._said or self._colours:
            return
        known = [path(one.name) for one in (*self._plan.arguments, *self._plan.results)]
        known += [row.value for row in self._sent]
        near = difflib.get_close_matches(path(self._pattern), dict.fromkeys(known), NEAR, 0.3)
        raise InvalidRequest(
            f"Nothing in the plan matches {self._pattern!r}.",
            f"Near it: {', '.join(near)}." if near else "`toast explain DIR` lists names.",
        )

    def groups(self) -> set[int]:
        """The colours of all that matches."""
        tensors = [one.colours for one, _ in (*self.arguments, *self.results)]
        values = [one.colours for one in self.values]
        return {group for colours in (*tensors, *values) for group in colours} | set(self._colours)

    def collectives(self, numbers: set[int]) -> list[CollectiveRow]:
        """Those that send what matches, or need it; where that is none, those of the decisions."""
        own = self._said | {row.name for row in self.values}
        own |= {pattern for _, pattern in self.arguments}
        found = [row for row in self._sent if {row.value, row.needed_by} & own]
        return found or [row for row in self._sent if numbers.intersection(row.decisions)]

    def tensors(self) -> list[ReasonedTensor]:
        """One row for tensors of one pattern of names, shape and layout."""
        rows: dict[str, tuple[str, list[Tensor]]] = {}
        for kind, tensors in (("argument", self.arguments), ("result", self.results)):
            for one, pattern in tensors:
                key = f"{kind} {pattern} {one.shape} {one.spec} {one.colours}"
                rows.setdefault(key, (kind, []))[1].append(one)
        return [self._tensor(kind, members) for kind, members in rows.values()]

    def _tensor(self, kind: str, members: Sequence[Tensor]) -> ReasonedTensor:
        first = members[0]
        sizes = {axis.name: axis.size for axis in self._plan.mesh.axes}
        local = [
            -(-size // math.prod(sizes[axis] for axis in axes))
            for size, axes in zip(first.shape, first.spec, strict=True)
        ]
        return ReasonedTensor(
            name=starred([one.name for one in members]),
            kind=kind,
            count=len(members),
            shape=first.shape,
            shape_per_device=local,
            dtype=first.dtype,
            dimensions=self._dimensions(first),
        )

    def _dimensions(self, tensor: Tensor) -> list[ReasonedDimension]:
        by_colour = {one.id: one for one in self._plan.colours}
        found = []
        rows = zip(tensor.shape, tensor.spec, tensor.colours, strict=True)
        for size, axes, group in rows:
            colour = by_colour.get(group)
            taken = dict(zip(colour.axes, colour.decisions, strict=True)) if colour else {}
            numbers = [taken[axis] for axis in axes if axis in taken]
            found.append(
                ReasonedDimension(
                    size=size,
                    axes=axes,
                    colour=self._names.get(group, ""),
                    decisions=numbers,
                    demanded=[axis for axis in axes if axis not in taken],
                )
            )
        return found


def _decisions(plan: Plan) -> Iterable[ReasonedDecision]:
    before = plan.unsharded.step_seconds, plan.unsharded.peak_bytes
    for number, row in enumerate(plan.decisions, 1):
        seconds, peak = row.step_seconds_after, row.peak_bytes_after
        if seconds is None or peak is None:
            continue
        yield ReasonedDecision(
            number=number,
            colour=row.colour,
            axis=row.axis,
            resolution=row.resolution,
            resolved=row.resolved,
            step_seconds_before=before[0],
            step_seconds_after=seconds,
            peak_bytes_before=before[1],
            peak_bytes_after=peak,
        )
        before = seconds, peak
