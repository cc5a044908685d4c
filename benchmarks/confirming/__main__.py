"""Confirmed plans against plain data parallelism and FSDP: `toast plan --confirm` on many.

| command | what |
| --- | --- |
| `run` | plan with `--confirm` what has no record yet, one program at a time |
| `report` | print the table |
| `write` | write it into docs/confirm.md |

The programs are those of `benchmarks.planners`: the paper's models, and ten of the zoo. `--models`
takes any other of the zoo as well, as `architecture/program`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import dispatch, new_parser, print_paths

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    commands = {"run": _run, "report": _report, "write": _write}
    return dispatch(given, _parser().parse_args(given), commands, "benchmarks.confirming")


def _run(options: argparse.Namespace) -> int:
    from benchmarks.confirming.running import Choose, run_cases

    wanted = Choose(
        only=tuple(options.models.split(",")) if options.models else (),
        target=options.target,
        mesh=options.mesh,
        plans=options.confirm,
        seconds=options.confirm_time,
    )
    count = run_cases(wanted, options.data, seconds=options.time_limit)
    print(f"{count} programs planned", file=sys.stderr)
    return 0


def _report(options: argparse.Namespace) -> int:
    from benchmarks.confirming.tables import report

    print(report(options.data))
    return 0


def _write(options: argparse.Namespace) -> int:
    from benchmarks.confirming.tables import write_page

    return print_paths([write_page(options.data, options.docs)])


def _parser() -> argparse.ArgumentParser:
    commands = ("run", "report", "write", "all")
    parser = new_parser("benchmarks.confirming", __doc__, commands, DATA)
    parser.add_argument(
        "--models", default="", help="only these, between commas; any of the zoo as NAME/PROGRAM"
    )
    parser.add_argument("--target", default="tpu-v5e:2x4", help="what to compile for")
    parser.add_argument("--mesh", default="data=2,model=4", help="the mesh")
    parser.add_argument("--confirm", type=int, default=2, help="plans that are compiled")
    parser.add_argument("--confirm-time", type=float, default=900.0, help="seconds for that")
    return parser


if __name__ == "__main__":
    sys.exit(main())
