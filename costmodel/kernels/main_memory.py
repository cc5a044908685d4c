"""Kernels for the time that main memory takes at least, whatever fits on the chip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import streamed, total
from toast.costmodel.kernels.journal import note
from toast.costmodel.terms.journal import FLOOR, UPDATED, Bound

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

BYTES = int(Bound.BYTES)


@inner
def updated_bytes(t: Tables, s: Scratch) -> float:
    """Bytes that fusions fetch of buffers behind updates.

    What a loop carries may wait on the chip from one iteration to another, once it is there.
    """
    reads = t.updated_reads
    for row in range(len(reads.weight)):
        if s.updated_reads.stale[row]:
            fetched, size = reads.fetched[row], s.tensors.local[reads.tensor[row]]
            whole = s.tensors.local[reads.whole[row]]
            again = (1.0 - fetched) * streamed(t.chip.on_chip, t.chip.streamed_from, whole)
            s.updated_reads.bytes[row] = reads.weight[row] * size * (fetched + again)
    return total(s.updated_reads.bytes)


@inner
def _crowding(t: Tables, s: Scratch) -> tuple[float, float]:
    """The part of arguments and results that finds no room on the chip, and late bytes.

    The largest that fits there is fetched long before it is read; the part of the on-chip memory
    that it fills is the part of the others that comes from main memory when it is wanted. Late are
    those bytes that fusions do not stream in any case.
    """
    largest, fitting, late = 0.0, 0.0, 0.0
    for row in range(len(t.floors.tensor)):
        size = s.tensors.local[t.floors.tensor[row]]
        if size < t.chip.on_chip_buffers:
            fitting += t.floors.times[row] * size
            largest = max(largest, size)
    if fitting == 0.0:
        return 0.0, 0.0
    part = largest / t.chip.on_chip_buffers * (fitting - largest) / fitting
    for row in range(len(t.floors.tensor)):
        late += t.floors.times[row] * _late(t, s.tensors.local[t.floors.tensor[row]], part)
    return part, late


@inner
def _late(t: Tables, size: float, part: float) -> float:
    """Bytes of an argument or result for which fusions wait."""
    if size >= t.chip.on_chip_buffers:
        return 0.0
    return size * max(part - streamed(t.chip.on_chip, t.chip.streamed_from, size), 0.0)


@inner
def price_main_memory(t: Tables, s: Scratch, compute: float) -> float:
    """Seconds in which fusions wait for main memory, beside the time of `compute`.

    They wait for what has no room on the chip, and at least until main memory has had the time to
    fetch all arguments and buffers behind updates, and to store all results.
    """
    if not t.floors.counted:
        return 0.0
    least = 0.0
    for row in range(len(t.floors.tensor)):
        least += t.floors.times[row] * s.tensors.local[t.floors.tensor[row]]
    least += updated_bytes(t, s)
    part, late = _crowding(t, s)
    waited = late * t.chip.feeding / t.chip.bandwidth
    short = max(least / t.chip.bandwidth - compute - waited, 0.0)
    for row in range(len(t.floors.tensor)):
        count, each = t.floors.times[row], s.tensors.local[t.floors.tensor[row]]
        size, crowded = count * each, count * _late(t, each, part)
        spent = crowded * t.chip.feeding / t.chip.bandwidth
        spent += short * (size / least) if short > 0.0 else 0.0
        if spent > 0.0:
            moved = size if short > 0.0 else crowded
            note(s.journal, FLOOR, row, 0, BYTES, 0, count, moved, spent)
    for row in range(len(t.updated_reads.weight)):
        moved = s.updated_reads.bytes[row]
        if short > 0.0 and moved > 0.0:
            weight, spent = t.updated_reads.weight[row], short * (moved / least)
            note(s.journal, UPDATED, row, 0, BYTES, 0, weight, moved, spent)
    return short + waited
