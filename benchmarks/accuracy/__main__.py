"""Predicted against compiled: `python -m benchmarks.accuracy all` does everything.

| command | what |
| --- | --- |
| `run` | compile the cases that are not done yet, one at a time |
| `reprice` | price the states of all cases again, without compiling |
| `report` | print the tables, the held-out models apart |
| `write` | write docs/accuracy.md and its plots |
| `all` | the four in a row, in an environment that has the compilers |
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.accuracy.schedule import TARGETS
from benchmarks.command import dispatch, new_parser, print_paths

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    commands = {"run": _run, "reprice": _reprice, "report": _report, "write": _write}
    return dispatch(given, options, commands, "benchmarks.accuracy")


def _run(options: argparse.Namespace) -> int:
    from benchmarks.accuracy.models import HELD_OUT, SIZES
    from benchmarks.accuracy.running import run_cases
    from benchmarks.accuracy.schedule import all_cases

    targets = tuple(options.targets.split(","))
    models = tuple(options.models.split(",")) if options.models else None
    unknown = sorted((set(models or ()) - {*SIZES, *HELD_OUT}) | (set(targets) - set(TARGETS)))
    if unknown:
        known = ", ".join((*SIZES, *HELD_OUT, *TARGETS))
        print(f"unknown: {', '.join(unknown)}; known: {known}", file=sys.stderr)
        return 2
    os.nice(10)  # the compiler takes every core for minutes
    count = run_cases(
        all_cases(targets, models),
        options.data,
        limit=options.limit,
        seconds=options.time_limit,
        hlo=options.hlo,
    )
    print(f"{count} cases compiled", file=sys.stderr)
    return 0


def _reprice(options: argparse.Namespace) -> int:
    if options.without:
        return _reprice_without(options)
    from benchmarks.accuracy.repricing import reprice

    for path in sorted(options.data.glob("*.jsonl")):
        kept, stale = reprice(path, check=not options.prices_only)
        print(f"{path.name}: {kept} cases repriced, {stale} stale", file=sys.stderr)
    return 0


def _reprice_without(options: argparse.Namespace) -> int:
    """Into a folder of its own, for no price of a compiler that leaves passes out is kept."""
    from benchmarks.accuracy.leaving_out import compare

    left_out = options.without.split(",")
    print(compare(options.data, left_out, options.targets.split(","), options.into))
    return 0


def _report(options: argparse.Namespace) -> int:
    from benchmarks.accuracy.records import held_out, tuning
    from benchmarks.accuracy.tables import report

    print(report(tuning(options.data), verbose=options.verbose))
    print("\n# Held-out models\n")
    print(report(held_out(options.data), verbose=options.verbose))
    return 0


def _write(options: argparse.Namespace) -> int:
    from benchmarks.accuracy.document import write_page

    return print_paths(write_page(options.data, options.docs))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "benchmarks.accuracy", __doc__, ("run", "reprice", "report", "write", "all"), DATA
    )
    parser.add_argument("--targets", default=",".join(TARGETS), help="what to compile for")
    parser.add_argument("--models", help="only these, separated by commas")
    parser.add_argument("--limit", type=int, help="compile at most this many cases")
    parser.add_argument("--hlo", type=Path, help="keep the compiled HLO in this directory")
    parser.add_argument("--verbose", action="store_true", help="one line a case as well")
    parser.add_argument(
        "--without",
        metavar="PASS,...",
        help="with reprice: price as if the compilers did not do these passes, keep the data as it "
        "is, and print what that does to the errors",
    )
    parser.add_argument("--into", type=Path, help="with --without: where to keep these records")
    parser.add_argument(
        "--prices-only",
        action="store_true",
        help="reprice without asking whether each module would still be written the same",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
