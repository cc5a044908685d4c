"""`python -m benchmarks.accuracy run|reprice|report`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.accuracy.cases import all_cases
from benchmarks.accuracy.models import makers
from benchmarks.accuracy.report import report
from benchmarks.accuracy.running import read_records, reprice, run_cases

DATA = Path(__file__).parent / "data"
# Nothing here runs on an accelerator, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> int:
    """Returns the exit code."""
    options = _parser().parse_args()
    path: Path = options.data or DATA / f"{options.target.replace(':', '-')}.jsonl"
    if options.command == "run":
        models = options.models.split(",") if options.models else list(makers())
        unknown = sorted(set(models) - set(makers()))
        if unknown:
            print(f"unknown: {', '.join(unknown)}; known: {', '.join(makers())}", file=sys.stderr)
            return 2
        if options.hlo is not None:
            options.hlo.mkdir(parents=True, exist_ok=True)
        os.nice(10)  # the compiler takes every core for minutes
        run_cases(
            all_cases(models, options.randoms, options.target),
            path,
            limit=options.limit,
            seconds=options.time_limit,
            hlo=options.hlo,
        )
    elif options.command == "reprice":
        kept, stale = reprice(path)
        print(f"{kept} cases repriced, {stale} stale", file=sys.stderr)
    print(report(read_records(path), verbose=options.verbose))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("command", choices=("run", "reprice", "report"))
    parser.add_argument("--target", default="tpu-v5e:2x4", help="what to compile for")
    parser.add_argument("--models", help="only these, separated by commas")
    parser.add_argument("--randoms", type=int, default=6, help="random plans per mesh")
    parser.add_argument("--limit", type=int, help="run at most this many cases")
    parser.add_argument("--time-limit", type=float, help="start no case after these seconds")
    parser.add_argument("--data", type=Path, help="the file of cases")
    parser.add_argument("--hlo", type=Path, help="keep the compiled HLO in this directory")
    parser.add_argument("--verbose", action="store_true", help="one line a case as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
