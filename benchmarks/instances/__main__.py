"""Problems like the contest's, from programs of the zoo: make them, solve them, print the table.

`python -m benchmarks.instances make FOLDER` writes the problems (`python -m benchmarks.zoo lower`
makes the modules). `run FOLDER` solves them in `--seconds` each and keeps a line for each run in
`data/runs.jsonl`; `--half`, `--names` for some of them. `table` prints what was kept: every run of
the least seconds, beside the best answer of any run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.instances.cases import Case, all_cases, make
from benchmarks.instances.runs import RUNS, solved, table
from benchmarks.zoo.lowering import MODULES
from toast.search.kernel_cache import warm_kernels


def main() -> None:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instances",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("make", "run", "table"))
    parser.add_argument("folder", type=Path, nargs="?", help="where the problems are")
    parser.add_argument("--modules", type=Path, default=MODULES, help="where the programs are")
    parser.add_argument("--half", choices=("tuning", "held-out"), help="this half alone")
    parser.add_argument("--names", help="architectures, for example marian,bloom")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each problem (60)")
    parser.add_argument("--threads", type=int, default=2, help="of the solver (2)")
    parser.add_argument("--data", type=Path, default=RUNS, help="where runs are kept")
    options = parser.parse_args()
    if options.data.is_dir() or not options.data.parent.is_dir():
        parser.error(f"--data {options.data}: give a file in a folder that is there")
    if options.command == "table":
        print(table(read_records(options.data)))
        return
    if options.folder is None:
        parser.error("give the folder of the problems")
    cases = _chosen(parser, options)
    if options.command == "make":
        make(cases, options.folder, options.modules)
    else:
        _run(cases, options)


def _chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Case]:
    cases = [case for case in all_cases() if options.half in (None, case.half)]
    if options.names is None:
        return cases
    names = options.names.split(",")
    known = {case.architecture for case in cases}
    if unknown := sorted(set(names) - known):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return [case for case in cases if case.architecture in names]


def _run(cases: list[Case], options: argparse.Namespace) -> None:
    absent = [case.name for case in cases if not case.path(options.folder).exists()]
    if absent:
        print(f"not in {options.folder}: {', '.join(absent)}; make them first", file=sys.stderr)
        sys.exit(2)
    warm_kernels()
    for case in cases:
        record = solved(case, options.folder, options.seconds, options.threads)
        print(table([record]).splitlines()[-1], flush=True)
        append_record(options.data, record)


if __name__ == "__main__":
    main()
