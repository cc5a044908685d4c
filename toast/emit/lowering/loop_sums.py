"""Sums that a loop only adds up: it carries partial sums, which are put together behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toast.analysis.load import Source
from toast.costmodel.passes.while_loop_all_reduce_motion import added_sums
from toast.costmodel.program.buffers import Slot
from toast.costmodel.resolved import ResolvedPlan
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
    program, found = source.program, LoopSums(carried={}, inside={})
    read = np.bincount(program.use_value, minlength=program.values)
    for maker, slot in added_sums(program).items():
        if not resolved.is_behind_loop(maker) or read[slot.condition]:
            continue
        path = _path(source, maker, slot)
        if _adds(source, sums, maker) and sums.is_kept(maker) and _stays(source, specs, path, slot):
            axes = sums.reduced(maker)
            found.carried[slot.body] = axes
            found.inside.update(dict.fromkeys(path, axes))
    return found


def _path(source: Source, maker: int, slot: Slot) -> list[int]:
    """The values from an op's result to what the loop yields, both among them."""
    program = source.program
    starts, uses = program.readers
    found = [program.values_of(maker).start]
    while found[-1] != slot.yielded:
        user = program.user(int(uses[starts[found[-1]]]))
        found.append(program.values_of(user).start)
    return found


def _adds(source: Source, sums: PlannedSums, op: int) -> bool:
    """Whether the partial results of an op are added up, always over all axes as planned."""
    if source.program.kind(op) == "stablehlo.reduce":
        return combining(source.handles[op]) == ADD
    return sums.is_sum(op)


def _stays(source: Source, specs: Specs, path: list[int], slot: Slot) -> bool:
    """Whether partial sums are wanted as they are kept, all the way."""
    program = source.program
    starts, uses = program.readers
    layout = specs.value(slot.body)
    return specs.value(slot.yielded) == layout and all(
        specs.use(use) == specs.value(value)
        for value in (*path, slot.body)
        for use in uses[starts[value] : starts[value + 1]].tolist()
    )
