"""The figures of many cases at once: how near, how well ranked, what fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import (
    close_pairs,
    mean,
    memory_error,
    quantile,
    spearman,
    step_seconds,
    wire_error,
    within,
)
from toast.aot import Target
from toast.costmodel.hardware.devices import MARGIN, find

T = TypeVar("T")
NEAR_MEMORY, NEAR_WIRE = 0.15, 0.10
FEW = 5
"""Ranks of fewer plans than these are not stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Relative errors of several cases: mean, median, nine in ten below, share within a bound."""

    cases: int
    mean: float
    median: float
    ninth: float
    near: float

    @classmethod
    def of(cls, errors: list[float], bound: float) -> Errors:
        """The figures of signed errors."""
        return cls(
            cases=len(errors),
            mean=mean(errors),
            median=quantile(errors, 0.5),
            ninth=quantile(errors, 0.9),
            near=within(errors, bound),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Rank correlation of step times over all plans of one model, and over those close together."""

    plans: int
    all: float
    close_plans: int
    close: float

    @classmethod
    def of(cls, records: list[Record]) -> Ranks:
        """The figures of one model on one target; NaN over fewer than `FEW` plans."""
        pairs = known(records, step_seconds)
        near = close_pairs(pairs)
        return cls(
            plans=len(pairs),
            all=spearman(pairs) if len(pairs) >= FEW else float("nan"),
            close_plans=len(near),
            close=spearman(near) if len(near) >= FEW else float("nan"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was called fitting and what the compiler accepts; lists hold the cases' keys.

    `low` are cases predicted more than `MARGIN` below what they need: with another limit, each of
    them could be called fitting and be refused.
    """

    cases: int
    refused: int
    false_fits: list[str]
    false_refusals: list[str]
    low: list[str]

    @classmethod
    def of(cls, records: list[Record]) -> Fit:
        """The figures of cases of any target."""
        refused = [row for row in records if row["compiled"]["refusal"]]
        accepted = [row for row in records if not row["compiled"]["refusal"]]
        low = [row for row in records if (memory_error(row) or 0.0) < -MARGIN]
        return cls(
            cases=len(records),
            refused=len(refused),
            false_fits=[row["key"] for row in refused if called_fitting(row)],
            false_refusals=[row["key"] for row in accepted if not called_fitting(row)],
            low=[row["key"] for row in low],
        )


def called_fitting(record: Record) -> bool:
    """Whether the prediction leaves `MARGIN` of the chip's memory free."""
    plannable = find(Target.parse(record["target"]).chip.device).plannable_bytes
    return bool(record["predicted"]["peak_bytes"] <= plannable)


def memory(records: list[Record]) -> Errors:
    """How near predicted memory is."""
    return Errors.of(known(records, memory_error), NEAR_MEMORY)


def wire(records: list[Record]) -> Errors:
    """How near the predicted bytes on the wire are."""
    return Errors.of(known(records, wire_error), NEAR_WIRE)


def known(records: list[Record], of: Callable[[Record], T | None]) -> list[T]:
    """The figures of the cases that have one."""
    return [value for record in records if (value := of(record)) is not None]


def by(records: list[Record], field: str) -> dict[str, list[Record]]:
    """Cases by a field, in the order in which they are met."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record[field]].append(record)
    return dict(found)


def worst(records: list[Record], of: Callable[[Record], float | None], count: int) -> list[Record]:
    """The cases with the largest errors, the largest first; of those without one none."""
    having = [(abs(error), row) for row in records if (error := of(row)) is not None]
    having.sort(key=lambda pair: -pair[0])
    return [row for _, row in having[:count]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Collectives of one kind over several cases: counts and bytes on the wire of one device."""

    kind: str
    predicted_count: float
    compiled_count: float
    predicted_bytes: float
    compiled_bytes: float


def traffic(records: list[Record]) -> list[Traffic]:
    """Predicted and compiled collectives by kind, of cases that have been compiled through."""
    through = [row for row in records if row["compiled"]["memory"] is not None]
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for record in through:
        for row in record["predicted"]["collectives"]:
            sums[row["kind"]][0] += row["count"]
            sums[row["kind"]][2] += row["bytes"]
        for row in record["compiled"]["collectives"]:
            sums[row["kind"]][1] += row["count"]
            sums[row["kind"]][3] += row["wire_bytes"]
    return [
        Traffic(
            kind=kind,
            predicted_count=figures[0],
            compiled_count=figures[1],
            predicted_bytes=figures[2],
            compiled_bytes=figures[3],
        )
        for kind, figures in sorted(sums.items())
    ]
