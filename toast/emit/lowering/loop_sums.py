"""Sums that a loop only adds up: it carries partial sums, which are put together behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.load import Source
from toast.analysis.program import Program
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
    program = source.program
    read = np.bincount(program.use_value, minlength=program.values)
    for maker, parts in resolved.loop_sums().items():
        unread = not any(read[one.condition] for one in parts)
        stay = all(_stays(program, specs, one) for one in parts)
        if unread and stay and _adds(source, sums, maker):
            axes = sums.reduced(maker)
            for one in parts:
                found.carried[one.body] = axes
                found.inside.update((program.sources[use], axes) for use in one.path)
    return found


def _adds(source: Source, sums: PlannedSums, op: int) -> bool:
    """Whether partial results are added up, over all axes as planned, and kept as they are made."""
    if not sums.is_kept(op):
        return False
    if source.program.kind(op) == "stablehlo.reduce":
        return combining(source.handles[op]) == ADD
    return sums.is_sum(op)


def _stays(program: Program, specs: Specs, one: LoopSum) -> bool:
    """Whether partial sums are wanted as they are kept, all the way."""
    (added, last), body = one.path[-2:], one.body
    return specs.value(program.sources[last]) == specs.value(body) and all(
        specs.use(use) == specs.value(program.sources[use])
        for use in (*one.path, *program.uses_of(program.user(added)))
    )
