"""What each value of a setting comes to, over all problems: how far from the best known cost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.accuracy.records import Record
from benchmarks.search_settings.variants import Variant, variants

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


class Experiment:
    """The runs, of the rounds alone and helped, and the lowest cost that any found, by problem.

    Variants are compared on the problems that all of their kind were run on: `cases[helpers]`.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.best: dict[str, float] = {}
        done: defaultdict[str, set[str]] = defaultdict(set)
        for record in records:
            case = record["case"]
            self.best[case] = min(self.best.get(case, math.inf), record["cost"])
            done[case].add(record["key"])
        self.cases = {
            helpers: {
                case
                for case, keys in done.items()
                if {f"{case}: {one.key}" for one in variants() if one.settings.helpers is helpers}
                <= keys
            }
            for helpers in (False, True)
        }

    def regret(self, variant: Variant, at: int | None = None) -> Regret | None:
        """The regret of all runs with a variant's values, whatever the seed; None without runs.

        `at` is a number of evaluations, the end of the run where it is None.
        """
        cases = self.cases[variant.settings.helpers]
        runs = [
            record
            for record in self._records
            if record["case"] in cases and record["values"] == variant.values
        ]
        if not runs:
            return None
        over = [math.log(_cost(run, at) / self.best[run["case"]]) for run in runs]
        return Regret(
            runs=len(runs),
            mean=fmean(over),
            worst=max(over),
            found=fmean(part <= math.log1p(NEAR) for part in over),
            evaluations=fmean(run["evaluations"] for run in runs),
            seconds=fmean(run["seconds"] for run in runs),
        )


def _cost(run: Record, at: int | None) -> float:
    cost: float = run["cost"] if at is None else run["curve"][str(at)]
    return cost
