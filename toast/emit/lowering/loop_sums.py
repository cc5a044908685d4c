"""Sums that a loop only adds up: it carries partial sums, which are put together behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.load import Source
from toast.costmodel.resolved import LoopSum, ResolvedPlan
from toast.emit.lowering.reductions import ADD, combining
from toast.emit.lowering.sums import PlannedSums
from toast.emit.specs import Specs


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSums:
    """Which values are partial in loops, and over which axes.

    `carried` has those that a loop carries, by the arguments of its body, and `inside` all others.
    """

    carried: dict[int, tuple[str, ...]]
    inside: dict[int, tuple[str, ...]]

    def axes(self, value: int) -> tuple[str, ...]:
        """The axes over which a value stays partial inside a loop; none of most."""
        return self.inside.get(value, ())


def find_loop_sums(
    source: Source, resolved: ResolvedPlan, specs: Specs, sums: PlannedSums
) -> LoopSums:
    """The sums that the price has behind a loop, where nothing is moved on the way there."""
    found = LoopSums(carried={}, inside={})
    read = np.bincount(source.program.use_value, minlength=source.program.values)
    for one in resolved.loop_sums():
        if (
            not read[one.condition]
            and _adds(source, sums, one.maker)
            and _stays(source, specs, one)
        ):
            axes = sums.reduced(one.maker)
            found.carried[one.body] = axes
            found.inside.update(dict.fromkeys(one.path, axes))
    return found


def _adds(source: Source, sums: PlannedSums, op: int) -> bool:
    """Whether partial results are added up, over all axes as planned, and kept as they are made."""
    if not sums.is_kept(op):
        return False
    if source.program.kind(op) == "stablehlo.reduce":
        return combining(source.handles[op]) == ADD
    return sums.is_sum(op)


def _stays(source: Source, specs: Specs, one: LoopSum) -> bool:
    """Whether partial sums are wanted as they are kept, all the way."""
    program = source.program
    starts, uses = program.readers
    return specs.value(one.path[-1]) == specs.value(one.body) and all(
        specs.use(use) == specs.value(value)
        for value in (*one.path, one.body)
        for use in uses[starts[value] : starts[value + 1]].tolist()
    )
