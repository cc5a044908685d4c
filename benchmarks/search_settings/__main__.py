"""What the settings of the tree search do: `python -m benchmarks.search_settings all`.

| command | what |
| --- | --- |
| `run` | run what is not done yet; a run that was stopped goes on where it was |
| `write` | write docs/search-settings.md and its plot |
| `all` | both |
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data" / "runs.jsonl"
DOCS = Path(__file__).parents[2] / "docs"
# Nothing here runs on an accelerator, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.command in ("run", "all"):
        from benchmarks.search_settings.running import run
        from search.warm import warm_kernels

        warm_kernels()
        parts = options.parts.split(",") if options.parts else None
        count = run(options.data, parts, options.time_limit, alone=options.rounds_alone)
        print(f"{count} runs", file=sys.stderr)
    if options.command in ("write", "all"):
        from benchmarks.search_settings.document import write_page

        for path in write_page(options.data, options.docs):
            print(path, file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search_settings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("run", "write", "all"))
    parser.add_argument("--parts", help="only these comparisons: formula, or names of settings")
    parser.add_argument("--rounds-alone", action="store_true", help="not with beams and polish")
    parser.add_argument("--time-limit", type=float, help="start nothing after these seconds")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of runs")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where `write` writes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
