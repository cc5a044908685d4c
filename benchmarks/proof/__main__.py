"""Whether plans compute what their programs compute: `python -m benchmarks.proof all`.

| command | what |
| --- | --- |
| `run` | prove what has no verdict of this code; a run that was stopped goes on where it was |
| `report` | print the verdicts |
| `write` | write docs/proof.md |
| `all` | the three in a row |
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import new_parser, print_paths

DATA = Path(__file__).parent / "data" / "cases.jsonl"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 1 where a plan is wrong."""
    options = _parser().parse_args(arguments)
    if options.command in ("run", "all"):
        _run(options)
    from benchmarks.accuracy.records import read_records
    from benchmarks.proof.document import report, write_page
    from benchmarks.proof.running import is_fresh

    records = read_records(options.data)
    if options.command in ("report", "all"):
        stale = sum(not is_fresh(record) for record in records)
        print(f"{report(records)}\n{stale} were made by other code; `run` does them again.")
    if options.command in ("write", "all"):
        print_paths([write_page(records, options.docs)])
    return int(any(record["verdict"] == "differs" for record in records))


def _run(options: argparse.Namespace) -> None:
    from benchmarks.proof.cases import every_case
    from benchmarks.proof.running import prove_cases

    count = prove_cases(
        [
            case
            for case in every_case()
            if case.model in (options.models or case.model).split(",")
            and case.planner in (options.planners or case.planner).split(",")
        ],
        options.data,
        limit=options.limit,
        seconds=options.time_limit,
        case_seconds=options.case_limit,
    )
    print(f"{count} cases", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.proof", __doc__, ("run", "report", "write", "all"), DATA)
    parser.add_argument("--models", help="only these, with commas between")
    parser.add_argument("--planners", help="only these, with commas between")
    parser.add_argument("--limit", type=int, help="at most so many cases")
    parser.add_argument("--case-limit", type=float, default=900, help="seconds of one case")
    return parser


if __name__ == "__main__":
    sys.exit(main())
