"""What the settings of the tree search do: `python -m benchmarks.search_settings all`.

| command | what |
| --- | --- |
| `run` | run what is not done yet; a run that was stopped goes on where it was |
| `write` | write docs/search-settings.md and its plot |
| `all` | both |
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import new_parser, print_paths

DATA = Path(__file__).parent / "data" / "runs.jsonl"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.command in ("run", "all"):
        from benchmarks.search_settings.running import run
        from toast.search.kernel_cache import warm_kernels

        warm_kernels()
        parts = options.parts.split(",") if options.parts else None
        count = run(options.data, parts, options.time_limit, alone=options.rounds_alone)
        print(f"{count} runs", file=sys.stderr)
    if options.command in ("write", "all"):
        from benchmarks.search_settings.document import write_page

        return print_paths(write_page(options.data, options.docs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.search_settings", __doc__, ("run", "write", "all"), DATA)
    parser.add_argument("--parts", help="only these comparisons: formula, or names of settings")
    parser.add_argument("--rounds-alone", action="store_true", help="not with beams and polish")
    return parser


if __name__ == "__main__":
    sys.exit(main())
