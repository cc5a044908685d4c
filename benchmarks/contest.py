"""The ASPLOS'25 / EuroSys'25 contest: solve its problems in its time, or score a solution.

`python -m benchmarks.contest FOLDER` solves the problems in FOLDER (`A.json.gz`, ...) and prints a
table; `--save OUT` writes the solutions. `python -m benchmarks.contest --score PROBLEM SOLUTION`
prints what a solution costs.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

from toast.search.kernel_cache import warm_kernels
from toast.search.pairwise import iopddl
from toast.search.pairwise.instance import score
from toast.search.pairwise.solve import Solution, solve

MARGIN = 0.03
"""Part of the contest's time that is not planned with: HiGHS hears the end of it late."""
MOST_THREADS = 8
"""The cores that the contest gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A problem of the contest: the best known cost, and the seconds that it gives."""

    best: int
    seconds: float


ENTRIES = {
    "A": Entry(best=6_548_641_531, seconds=60),
    "B": Entry(best=532_843, seconds=60),
    "G": Entry(best=217_039, seconds=120),
    "V": Entry(best=1_617_080, seconds=300),
}


def main() -> None:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contest")
    parser.add_argument("folder", type=Path, nargs="?", help="where A.json.gz and the others are")
    parser.add_argument("--problems", default=",".join(ENTRIES), help="for example B,G")
    parser.add_argument("--save", type=Path, help="write the solutions into this folder")
    parser.add_argument("--score", type=Path, nargs=2, metavar=("PROBLEM", "SOLUTION"))
    arguments = parser.parse_args()
    if arguments.score:
        print(scored(*arguments.score))
    elif arguments.folder is None:
        parser.error("give the folder of the problems, or --score")
    else:
        names = arguments.problems.split(",")
        absent = [n for n in names if not (arguments.folder / f"{n}.json.gz").exists()]
        if unknown := sorted(set(names) - set(ENTRIES)):
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(ENTRIES)}")
        if absent:
            parser.error(f"not in {arguments.folder}: {', '.join(f'{n}.json.gz' for n in absent)}")
        _table(arguments.folder, names, arguments.save)


def scored(problem: Path, solution: Path) -> str:
    """What a solution costs, and whether it is valid."""
    found = score(iopddl.read(problem), iopddl.read_solution(solution))
    valid = "valid" if found.feasible else "INVALID"
    return f"cost {found.cost:,.0f}, peak {found.peak:,.0f}, {valid}"


def _table(folder: Path, names: list[str], save: Path | None) -> None:
    warm_kernels()
    print("| problem | best known | ours | gap to it | seconds | lower bound | from | proved |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        begun = time.monotonic()
        answer = _solve(folder / f"{name}.json.gz", ENTRIES[name].seconds)
        print(row(name, answer, time.monotonic() - begun), flush=True)
        if save is not None and answer.choice is not None:
            save.mkdir(parents=True, exist_ok=True)
            iopddl.write(answer.choice, save / f"{name}.solution.json")


def _solve(path: Path, seconds: float) -> Solution:
    begun = time.monotonic()
    instance = iopddl.read(path)
    left = seconds * (1 - MARGIN) - (time.monotonic() - begun)
    return solve(instance, seconds=left, threads=min(MOST_THREADS, os.cpu_count() or 1))


def row(name: str, answer: Solution, seconds: float) -> str:
    """One line of the table."""
    best = ENTRIES[name].best
    found = "none" if answer.choice is None else f"{answer.cost:,.0f}"
    gap = "-" if answer.choice is None else f"{answer.cost / best - 1:+.4%}"
    cells = (
        name,
        f"{best:,}",
        found,
        gap,
        f"{seconds:.1f}",
        f"{answer.bound:,.0f}",
        answer.relaxation or "none",
        "yes" if answer.proved else "no",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
