"""Runs the search with each variant on each problem; each run is a line of JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.search_settings.problems import CASES, Case, build
from benchmarks.search_settings.variants import ALONE_EVALUATIONS, Variant, variants
from toast.search.mcts import search
from toast.search.problem import Problem
from toast.search.progress import Control, Progress

CHECKPOINTS = (500, 1_000, 2_000, 4_000)
"""Evaluations at which the best cost so far is kept."""


class Curve:
    """The best cost after so many evaluations; ends a run of the rounds alone at the last."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._seen: list[tuple[int, float]] = [(0, 1e30)]

    def watch(self, progress: Progress) -> None:
        """Take a snapshot of the search."""
        self._seen.append((progress.evaluations, progress.best_cost))

    def full(self) -> bool:
        """Whether as many states are priced as may be."""
        return self._most is not None and self._seen[-1][0] >= self._most

    def costs(self, last: float) -> dict[str, float]:
        """The best cost at each checkpoint; a search that ended before has `last` from then on."""
        found = {}
        for point in CHECKPOINTS:
            within = [cost for evaluations, cost in self._seen if 0 < evaluations <= point]
            ended = self._seen[-1][0] < point
            found[str(point)] = last if ended or not within else within[-1]
        return found


def run(
    data: Path, parts: Sequence[str] | None, seconds: float | None, *, alone: bool = False
) -> int:
    """Do what is not done yet, for at most so many seconds; returns how many runs that were.

    `parts` are the comparisons to run, all if there are none named; `alone`: only the rounds alone.
    """
    done = {record["key"] for record in read_records(data)}
    started, count = time.perf_counter(), 0
    for case in CASES:
        wanted = (one for one in variants() if parts is None or one.part in parts)
        todo = [
            one
            for one in wanted
            if f"{case.name}: {one.key}" not in done and not (alone and one.settings.helpers)
        ]
        if not todo:
            continue
        problem = build(case)
        for variant in todo:
            if seconds is not None and time.perf_counter() - started > seconds:
                return count
            if f"{case.name}: {variant.key}" in done:  # the default is in several comparisons
                continue
            record = one_run(case, problem, variant)
            done.add(record["key"])
            append_record(data, record)
            count += 1
        print(f"{case.name}: {len(todo)} runs", file=sys.stderr)
    return count


def one_run(case: Case, problem: Problem, variant: Variant) -> dict[str, Any]:
    """The record of one search."""
    curve = Curve(None if variant.settings.helpers else ALONE_EVALUATIONS)
    control = Control(on_progress=curve.watch, cancelled=curve.full)
    started = time.perf_counter()
    found = search(problem, variant.settings, control)
    return {
        "key": f"{case.name}: {variant.key}",
        "case": case.name,
        "values": variant.values,
        "seed": variant.settings.seed,
        "actions": len(problem.actions),
        "cost": found.cost,
        "curve": curve.costs(found.cost),
        "evaluations": found.evaluations,
        "seconds": round(time.perf_counter() - started, 4),
    }
