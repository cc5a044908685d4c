"""Our plan against layouts by hand, XLA's own auto-sharding and our other planners.

`python -m benchmarks.planners all` does everything.

| command | what |
| --- | --- |
| `run` | plan and compile the cases that are not done yet, one at a time |
| `report` | print the tables and the summary |
| `write` | write them and the plot into docs/planners.md |
| `all` | the three in a row, in an environment that has the compilers |
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.command import dispatch, new_parser, print_paths

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    commands = {"run": _run, "report": _report, "write": _write}
    return dispatch(given, options, commands, "benchmarks.planners")


def _run(options: argparse.Namespace) -> int:
    from benchmarks.planners.cases import TARGETS, Choose
    from benchmarks.planners.running import Limits, run_cases

    wanted = Choose(
        targets=_names(options.targets) or TARGETS,
        models=_names(options.models),
        meshes=_names(options.meshes, ";"),
        plans=_names(options.plans),
    )
    if unknown := wanted.unknown():
        print(f"unknown: {', '.join(unknown)}", file=sys.stderr)
        return 2
    os.nice(10)  # the compiler takes every core for minutes
    count = run_cases(
        wanted.cases(),
        options.data,
        limits=Limits(
            compile=options.compile_seconds,
            peer=options.peer_seconds,
            memory_only=options.memory_only,
        ),
        limit=options.limit,
        seconds=options.time_limit,
        hlo=options.hlo,
        again=_names(options.again),
        failed=options.failed,
    )
    print(f"{count} cases compiled", file=sys.stderr)
    return 0


def _names(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(text.split(separator)) if text else ()


def _report(options: argparse.Namespace) -> int:
    from benchmarks.planners.tables import report

    print(report(options.data))
    return 0


def _write(options: argparse.Namespace) -> int:
    from benchmarks.planners.document import write_page

    return print_paths(write_page(options.data, options.docs))


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.planners", __doc__, ("run", "report", "write", "all"), DATA)
    parser.add_argument("--targets", default="", help="what to compile for")
    parser.add_argument("--models", default="", help="only these, separated by commas")
    parser.add_argument("--meshes", default="", help="only these, separated by semicolons")
    parser.add_argument(
        "--plans", default="", help="only these, separated by commas; `manual:` is all by hand"
    )
    parser.add_argument("--again", default="", help="plan these again, though they are done")
    parser.add_argument("--failed", action="store_true", help="run again what failed")
    parser.add_argument("--limit", type=int, help="compile at most this many cases")
    parser.add_argument("--compile-seconds", type=float, default=300.0, help="of one compile")
    parser.add_argument("--peer-seconds", type=float, default=400.0, help="of the peer")
    parser.add_argument(
        "--memory-only", action="store_true", help="of a TPU plan ask no more than whether it fits"
    )
    parser.add_argument("--hlo", type=Path, help="keep the compiled HLO in this directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
