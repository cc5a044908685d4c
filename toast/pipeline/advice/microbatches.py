"""An estimate: the batch in parts, one after the other, whose gradients are added up."""

from __future__ import annotations

from toast.analysis.program import Program
from toast.costmodel.hardware.devices import Device
from toast.costmodel.resolved import resolve
from toast.labels.layers import state_arguments
from toast.labels.value_flow import ValueFlow
from toast.pipeline.advice.batches import Batch, BatchSizes, PricedPlan
from toast.pipeline.advice.recompute import local_bytes
from toast.plans.advice import Microbatches
from toast.search.progress import Control

_LESS_ROOM = 3
"""Times that a plan is looked for with less room, as its own sums turn out to need more."""
_PASSES = 3
"""Over the sums in memory, for each part: they are read, and written, and the part is read."""


def fewest_microbatches(
    sizes: BatchSizes, gradients: Gradients, update: float, control: Control
) -> Microbatches | None:
    """The smallest number of parts with which the step fits; None where none was found.

    `update` is what is spent once and not for each part. It is assumed that smaller parts need no
    more memory.
    """
    counts = _counts(sizes.batch)
    low, high = 0, len(counts)
    while low < high and control.stop_reason() is None:
        middle = (low + high) // 2
        plan = _closest(sizes, counts[middle], gradients, control.share(0.5))
        if plan is None:
            return None
        if plan.cost.peak + gradients.bytes(plan) <= sizes.memory:
            high = middle
        else:
            low = middle + 1
    if high == len(counts) or low < high:
        return None
    return _estimate(sizes, counts[high], gradients, update, control)


def _closest(
    sizes: BatchSizes, count: int, gradients: Gradients, control: Control
) -> PricedPlan | None:
    """A plan of one part that leaves room for the sums as that plan lays them out, if any does."""
    size, room = sizes.batch.size // count, float(sizes.memory)
    plan = sizes.closest(size, round(room), control)
    for _ in range(_LESS_ROOM):
        if plan is None or plan.cost.peak + gradients.bytes(plan) <= sizes.memory:
            return plan
        room = sizes.memory - gradients.bytes(plan)
        if room <= 0:
            return plan
        plan = sizes.closest(size, round(room), control)
    return plan


def _estimate(
    sizes: BatchSizes, count: int, gradients: Gradients, update: float, control: Control
) -> Microbatches | None:
    plan = plan_of_a_part(sizes, count, gradients, control)
    if plan is None:
        return None
    sums, device = gradients.bytes(plan), plan.problem.evaluator.device
    return Microbatches(
        count=count,
        size=sizes.batch.size // count,
        gradient_bytes=round(sums),
        peak_bytes=round(plan.cost.peak + sums),
        step_seconds=step_seconds(plan.cost.seconds, count, sums, update, device),
    )


def plan_of_a_part(
    sizes: BatchSizes, count: int, gradients: Gradients, control: Control
) -> PricedPlan | None:
    """The fastest plan known of one part that leaves room for the sums."""
    known = _closest(sizes, count, gradients, control)
    if known is None:
        return None
    room = round(sizes.memory - gradients.bytes(known))
    plan = sizes.fastest(sizes.batch.size // count, room, control, gradients.bytes)
    if plan is None or plan.cost.peak + gradients.bytes(plan) > sizes.memory:
        return known
    return plan


def step_seconds(part: float, count: int, gradients: float, update: float, device: Device) -> float:
    """What a step takes in `count` parts, each of which would take so long as a step of its own."""
    adding = _PASSES * gradients / (device.bandwidth * device.stream_efficiency)
    return count * (part + adding) - (count - 1) * min(update, part)


class Gradients:
    """What looks like trained weights, whose gradients are summed.

    Those are state that feeds products and has nothing to do with the batch.
    """

    def __init__(self, program: Program, batch: Batch) -> None:
        state, feeding = state_arguments(program), ValueFlow(program).feeding
        self._weights = [
            number
            for number, argument in enumerate(program.arguments)
            if number in state and feeding[argument.value] and number not in batch.carriers
        ]

    def __bool__(self) -> bool:
        return bool(self._weights)

    def bytes(self, plan: PricedPlan) -> float:
        """Bytes of the sums on one device, laid out as the plan has the weights."""
        resolved = resolve(plan.problem.evaluator, plan.state)
        arguments = resolved.evaluator.analysis.program.arguments
        size = local_bytes(resolved)
        return sum(size(arguments[number].value) for number in self._weights)


def _counts(batch: Batch) -> list[int]:
    """Numbers of parts, rising, whose size divides as the batch does."""
    return [
        count
        for count in range(2, batch.size + 1)
        if batch.size % count == 0 and (batch.size // count) % batch.step == 0
    ]
