"""A program at the batch at which it is meant to need some part of a chip's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.accuracy.cases import Bench, state_of
from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import needed_bytes
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import decode
from toast.aot import Target, Verdict
from toast.costmodel.hardware.devices import find
from toast.pipeline.advice.batches import Batch, batch_of
from toast.resize.resize import resize
from toast.search.problem import Found


def resized(
    bench: Bench, room: Record, share: float, others: Iterable[Record] = ()
) -> tuple[bytes, Record]:
    """The module at the batch that needs `share` of the memory, and what is to be noted of that.

    `room` is the record of the program at its own batch and `others` those at more batches: what
    the compiler laid out there says how much memory goes with the batch. Raises InvalidRequest
    where there is no batch, or no such size.
    """
    memory = Verdict.from_dict(room["compiled"]).memory
    batch = _batch(bench, room)
    if memory is None or memory.main is None or batch is None:
        raise InvalidRequest("It has no batch, or was refused.", "Take another program.")
    usable = find(Target.parse(room["target"]).chip.device).usable_bytes
    needed = {0: memory.argument, batch.size: memory.main}
    needed |= {row["batch"]: size for row in others if (size := needed_bytes(row)) is not None}
    size = size_for(share * usable, needed, batch.step)
    if size is None or size == batch.size:
        raise InvalidRequest(f"No other batch needs {share} of the memory.", "Take another share.")
    written = module_at(bench.module, batch.dimension, size)
    about = {"batch": size, "own_batch": batch.size, "dimension": list(batch.dimension)}
    return written, about


def module_at(module: bytes, dimension: tuple[int, int], size: int) -> bytes:
    """The module with another batch."""
    written, _ = resize(decode(module).module, {dimension: size})
    return written


def size_for(wanted: float, needed: Mapping[int, int], step: int) -> int | None:
    """The batch, a multiple of `step`, at which a line through two known sizes meets `wanted`.

    `needed` are the bytes at several batches, at 0 what is there at any; the two that are closest
    to what is wanted count.
    """
    if wanted <= needed.get(0, 0):
        return None
    near = sorted(needed, key=lambda size: abs(needed[size] - wanted))
    one, other = near[0], near[1]
    growing = (needed[one] - needed[other]) / (one - other)
    if growing <= 0:
        return None
    return max(round((one + (wanted - needed[one]) / growing) / step), 1) * step


def _batch(bench: Bench, room: Record) -> Batch | None:
    state = state_of(room["state"])
    value, _ = bench.problem.cost(state)
    return batch_of(bench.evaluator, Found.after(state, value, 1, "given"))
