"""The figures of one case, and rank correlations, quantiles and shares over several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.records import Record
from toast.aot import Target, Verdict
from toast.aot.collective_time import collective_seconds
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

Numbers = NDArray[np.float64]
QUIET = 65536
"""Bytes on the wire below which two figures are taken to be the same."""
CLOSE = 0.3


def needed_bytes(record: Record) -> int | None:
    """What the compiled program needs, where the compiler said so.

    None for a TPU program of which the report of its main memory was not kept.
    """
    verdict = Verdict.from_dict(record["compiled"])
    unknown = verdict.memory is not None and verdict.memory.main is None
    on_tpu = Target.parse(record["target"]).chip.platform == "tpu"
    return None if unknown and on_tpu else verdict.needed_bytes


def memory_error(record: Record) -> float | None:
    """(predicted - compiled) / compiled, where the compiler said how much it needs."""
    needed = needed_bytes(record)
    return None if not needed else float(record["predicted"]["peak_bytes"]) / needed - 1.0


def wire_bytes(record: Record) -> tuple[float, float] | None:
    """(predicted, compiled) bytes that one device puts on its links in a step.

    None where the compiler refused the program, and so said nothing of its collectives.
    """
    if record["compiled"]["memory"] is None:
        return None
    predicted = sum(row["bytes"] for row in record["predicted"]["collectives"])
    return predicted, sum(row["wire_bytes"] for row in record["compiled"]["collectives"])


def wire_error(record: Record) -> float | None:
    """(predicted - compiled) / compiled; None where both move less than 64 KiB."""
    wire = wire_bytes(record)
    if wire is None or max(wire) < QUIET:
        return None
    predicted, compiled = wire
    return (predicted - compiled) / max(compiled, float(QUIET))


def step_seconds(record: Record) -> tuple[float, float] | None:
    """(predicted, compiled) seconds of a step; compiled is cycles plus collectives priced alike.

    Neither has what the compiler gives no cycles.
    """
    compiled = compiled_seconds(record)
    if compiled is None:
        return None
    moving = float(record["predicted"]["communication_seconds"])
    return comparable_seconds(record) + moving, compiled


def comparable_seconds(record: Record) -> float:
    """Predicted seconds of computation less those of what the compiler gives no cycles."""
    predicted = record["predicted"]
    lacking = float(predicted.get("unestimated_seconds", 0.0))
    return float(predicted["compute_seconds"]) - lacking


def compiled_seconds(record: Record) -> float | None:
    """Seconds of a compiled step, cycles plus collectives; None where there are no cycles.

    Nor are there enough where it runs kernels: they have none, and what they do has a price.
    """
    verdict = Verdict.from_dict(record["compiled"])
    if verdict.compute_seconds is None or verdict.unestimated.get("kernel"):
        return None
    return verdict.compute_seconds + moving_seconds(record)


def moving_seconds(record: Record) -> float:
    """Seconds of the collectives of a compiled step, priced as predicted ones are."""
    verdict = Verdict.from_dict(record["compiled"])
    device = find(Target.parse(record["target"]).chip.device)
    return collective_seconds(verdict.collectives, Mesh.parse(record["mesh"]), device)


def spearman(pairs: list[tuple[float, float]]) -> float:
    """Rank correlation; NaN for fewer than three pairs, and where one side is all the same."""
    if len(pairs) < 3:
        return float("nan")
    first, second = (_ranks(np.array(side)) for side in zip(*pairs, strict=True))
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def close_pairs(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The most pairs whose second figures all lie within `CLOSE` of the least of them."""
    ordered = sorted(pairs, key=lambda pair: pair[1])
    best: list[tuple[float, float]] = []
    for start, (_, least) in enumerate(ordered):
        some = [pair for pair in ordered[start:] if pair[1] <= least * (1.0 + CLOSE)]
        best = some if len(some) > len(best) else best
    return best


def _ranks(values: Numbers) -> Numbers:
    """Ranks from 0, ties at their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means = (ends - counts + ends - 1) / 2.0
    return np.asarray(means[inverse], dtype=np.float64)


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the absolute values lie; NaN for none."""
    return float(np.quantile(np.abs(values), share)) if values else float("nan")


def mean(values: list[float]) -> float:
    """The mean of the absolute values; NaN for none."""
    return float(np.mean(np.abs(values))) if values else float("nan")


def within(values: list[float], bound: float) -> float:
    """The share of absolute values up to `bound`; NaN for none."""
    return float(np.mean(np.abs(values) <= bound)) if values else float("nan")
