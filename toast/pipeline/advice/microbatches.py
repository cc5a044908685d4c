"""An estimate: the batch in parts, one after the other, whose gradients are added up."""

from __future__ import annotations

from toast.analysis.program import Program
from toast.costmodel.evaluator import Cost
from toast.costmodel.explain import PriceBreakdown
from toast.costmodel.hardware.devices import Device
from toast.costmodel.journal import Entry
from toast.labels.layers import state_arguments
from toast.labels.value_flow import ValueFlow
from toast.pipeline.advice.batches import Batch, BatchSizes
from toast.plans.advice import Microbatches
from toast.search.progress import Control

_PASSES = 3
"""Over the sums in memory, for each part: they are read, and written, and the part is read."""


def fewest_microbatches(
    sizes: BatchSizes, gradients: float, update: float, control: Control
) -> Microbatches | None:
    """The smallest number of parts with which the step fits; None where none was found.

    `gradients` are the bytes of the sums, `update` the seconds that are spent once and not for each
    part. It is assumed that smaller parts need no more memory.
    """
    counts = _counts(sizes.batch)
    memory = sizes.memory - round(gradients)
    low, high = 0, len(counts)
    costs: dict[int, Cost] = {}
    while low < high and memory > 0 and control.stop_reason() is None:
        middle = (low + high) // 2
        cost = sizes.cost(sizes.batch.size // counts[middle], memory, control.share(0.5))
        if cost is None:
            return None
        if cost.peak <= memory:
            high, costs[middle] = middle, cost
        else:
            low = middle + 1
    if high not in costs:
        return None
    return _estimate(sizes, counts[high], gradients, update, control)


def _estimate(
    sizes: BatchSizes, count: int, gradients: float, update: float, control: Control
) -> Microbatches | None:
    size, device = sizes.batch.size // count, sizes.best.problem.evaluator.device
    cost = sizes.searched(size, sizes.memory - round(gradients), control)
    if cost is None:
        return None
    return Microbatches(
        count=count,
        size=size,
        gradient_bytes=round(gradients),
        peak_bytes=round(cost.peak + gradients),
        step_seconds=step_seconds(cost.seconds, count, gradients, update, device),
    )


def step_seconds(part: float, count: int, gradients: float, update: float, device: Device) -> float:
    """What a step takes in `count` parts, each of which would take so long as a step of its own."""
    adding = _PASSES * gradients / (device.bandwidth * device.stream_efficiency)
    return count * (part + adding) - (count - 1) * min(update, part)


def gradient_bytes(program: Program, batch: Batch, terms: PriceBreakdown) -> float:
    """Bytes on one device of what looks like trained weights, and so of their gradients.

    Those are state that feeds products and has nothing to do with the batch.
    """
    state, feeding = state_arguments(program), ValueFlow(program).feeding
    weights = {
        argument.value
        for number, argument in enumerate(program.arguments)
        if number in state and feeding[argument.value] and number not in batch.carriers
    }
    return sum(
        held.bytes for held in terms.held if held.why == Entry.BASE and held.value in weights
    )


def _counts(batch: Batch) -> list[int]:
    """Numbers of parts, rising, whose size divides as the batch does."""
    return [
        count
        for count in range(2, batch.size + 1)
        if batch.size % count == 0 and (batch.size // count) % batch.step == 0
    ]
