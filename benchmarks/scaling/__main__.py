"""Time to plan against layers, devices and sequence length: `python -m benchmarks.scaling all`.

| command | what |
| --- | --- |
| `run` | time what is not done yet; a run that was stopped goes on where it was |
| `compile` | plan for 256 and 4,096 chips and compile (extra `aot`) what is not compiled yet |
| `write` | write docs/scaling.md and its plots |
| `all` | run and write |
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.command import new_parser, print_paths

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.command in ("run", "all"):
        from benchmarks.scaling.running import run

        count = run(
            options.data / "stages.jsonl",
            options.modules,
            sweeps=options.sweeps.split(",") if options.sweeps else None,
            repeats=options.repeats,
            seconds=options.time_limit,
        )
        print(f"{count} cases", file=sys.stderr)
    if options.command == "compile":
        from benchmarks.scaling.compiling import compile_pods

        print(f"{compile_pods(options.data / 'pods.jsonl', options.hlo)} pods", file=sys.stderr)
    if options.command in ("write", "all"):
        from benchmarks.scaling.document import write_page

        return print_paths(write_page(options.data, options.docs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.scaling", __doc__, ("run", "compile", "write", "all"), DATA)
    parser.add_argument("--sweeps", help="only these: layers, devices, sequence, both")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each case")
    parser.add_argument("--hlo", type=Path, help="keep what was compiled in this folder")
    parser.add_argument(
        "--modules",
        type=Path,
        default=Path(tempfile.gettempdir()) / "toast-scaling",
        help="where lowered modules are kept",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
