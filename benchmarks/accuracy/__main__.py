"""`python -m benchmarks.accuracy run|reprice|report`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.accuracy.running import run_cases
from benchmarks.accuracy.schedule import TARGETS, all_cases

DATA = Path(__file__).parent / "data"
# Nothing here runs on an accelerator, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> int:
    """Returns the exit code."""
    options = _parser().parse_args()
    targets = tuple(options.targets.split(","))
    models = tuple(options.models.split(",")) if options.models else None
    os.nice(5)
    run_cases(
        all_cases(targets, models),
        options.data,
        limit=options.limit,
        seconds=options.time_limit,
        hlo=options.hlo,
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("command", choices=("run", "reprice", "report"))
    parser.add_argument("--targets", default=",".join(TARGETS), help="what to compile for")
    parser.add_argument("--models", help="only these, separated by commas")
    parser.add_argument("--limit", type=int, help="run at most this many cases")
    parser.add_argument("--time-limit", type=float, help="start no case after these seconds")
    parser.add_argument("--data", type=Path, default=DATA, help="the directory of cases")
    parser.add_argument("--hlo", type=Path, help="keep the compiled HLO in this directory")
    return parser


if __name__ == "__main__":
    sys.exit(main())
