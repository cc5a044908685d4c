"""Solves a problem in a time, and the table of what was solved."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.accuracy.records import Record
from benchmarks.instances.cases import Case
from toast.search.pairwise import iopddl
from toast.search.pairwise.instance import score
from toast.search.pairwise.solve import solve

RUNS = Path(__file__).parent / "data" / "runs.jsonl"
MARGIN = 0.5
"""Seconds of the time that are not planned with: the operating system gives the threads less."""
HEAD = (
    "problem",
    "half",
    "nodes",
    "first answer",
    "took",
    "cost",
    "above the best of any run",
    "above the bound",
)


def solved(case: Case, folder: Path, seconds: float, threads: int) -> Record:
    """Solve one problem, loading included, in `seconds`; what came out."""
    begun = time.monotonic()
    instance = iopddl.read(case.path(folder))
    first: list[float] = []

    def report(_cost: float) -> None:
        if not first:
            first.append(time.monotonic() - begun)

    left = seconds - MARGIN - (time.monotonic() - begun)
    answer = solve(instance, seconds=left, threads=threads, report=report)
    took = time.monotonic() - begun
    valid = answer.choice is not None and score(instance, answer.choice).feasible
    return {
        "key": f"{case.name} {seconds:.0f}",
        "problem": case.name,
        "half": case.half,
        "seconds": seconds,
        "nodes": instance.nodes,
        "edges": len(instance.edges),
        "first": round(first[0], 1) if first else None,
        "took": round(took, 1),
        "cost": answer.cost if valid else None,
        "bound": answer.bound,
    }


def table(records: Iterable[Record]) -> str:
    """The shortest run of each problem, beside the best cost and the best bound of any run."""
    by_problem: dict[str, list[Record]] = {}
    for record in records:
        by_problem.setdefault(record["problem"], []).append(record)
    rows = [HEAD, ("---",) * len(HEAD)]
    for runs in sorted(by_problem.values(), key=lambda runs: runs[0]["half"] == "held-out"):
        rows.append(_row(runs))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(runs: list[Record]) -> tuple[str, ...]:
    run = min(runs, key=lambda run: run["seconds"])
    best = min((one["cost"] for one in runs if one["cost"] is not None), default=None)
    bound = max(one["bound"] for one in runs)
    told = (run["problem"], run["half"], f"{run['nodes']:,}")
    if run["cost"] is None or best is None:
        return (*told, "none", f"{run['took']:.1f} s", "none", "-", "-")
    return (
        *told,
        f"{run['first']:.1f} s",
        f"{run['took']:.1f} s",
        f"{run['cost']:,.0f}",
        f"{run['cost'] / best - 1:.2%}" if len(runs) > 1 else "-",
        f"{run['cost'] / bound - 1:.2%}",
    )
