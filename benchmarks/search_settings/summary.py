"""What each value of a setting comes to, over all problems: how far from the best known cost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.accuracy.records import Record
from benchmarks.search_settings.variants import Variant

NEAR = 0.01
"""A run counts as having found the best where its cost is at most this part above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """How far the runs of one variant end above the best known costs.

    `mean` is the mean of log(cost / best), `worst` the largest; `found` the part of the runs within
    `NEAR` of the best; `evaluations` and `seconds` means of a run.
    """

    runs: int
    mean: float
    worst: float
    found: float
    evaluations: float
    seconds: float


def best_known(records: Iterable[Record]) -> dict[str, float]:
    """The lowest cost that any run found, by problem."""
    best: dict[str, float] = {}
    for record in records:
        best[record["case"]] = min(best.get(record["case"], math.inf), record["cost"])
    return best


def regret(records: Sequence[Record], variant: Variant, at: str | None = None) -> Regret | None:
    """The regret of all runs with a variant's values, whatever the seed; None without runs.

    `at` is a number of evaluations, the end of the run where it is None.
    """
    runs = [record for record in records if _values(record) == _values({"values": variant.values})]
    if not runs:
        return None
    best = best_known(records)
    over = [math.log(_cost(run, at) / best[run["case"]]) for run in runs]
    return Regret(
        runs=len(runs),
        mean=fmean(over),
        worst=max(over),
        found=fmean(part <= math.log1p(NEAR) for part in over),
        evaluations=fmean(run["evaluations"] for run in runs),
        seconds=fmean(run["seconds"] for run in runs),
    )


def by_case(records: Sequence[Record], variant: Variant) -> dict[str, float]:
    """Mean log(cost / best) of a variant by problem."""
    best, found = best_known(records), defaultdict(list)
    for run in records:
        if _values(run) == _values({"values": variant.values}):
            found[run["case"]].append(math.log(run["cost"] / best[run["case"]]))
    return {case: fmean(over) for case, over in found.items()}


def _cost(run: Record, at: str | None) -> float:
    cost: float = run["cost"] if at is None else run["curve"][at]
    return cost


def _values(record: Record) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(record["values"].items()))
