"""What the commands of the larger benchmarks share: options, pages, and all in a row."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.accuracy.environment import rerun
from toast.analysis.errors import ToastError

DOCS = Path(__file__).parents[1] / "docs"
# Nothing here runs on an accelerator, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def new_parser(
    program: str, description: str | None, commands: Sequence[str], data: Path
) -> argparse.ArgumentParser:
    """A parser with the commands and the options that all have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=commands)
    parser.add_argument("--data", type=Path, default=data, help="where records are kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where `write` writes")
    parser.add_argument("--time-limit", type=float, help="start nothing after these seconds")
    return parser


def print_paths(paths: Iterable[Path]) -> int:
    """Print the files that were written; returns the exit code."""
    for path in paths:
        print(path, file=sys.stderr)
    return 0


def dispatch(
    given: Sequence[str],
    options: argparse.Namespace,
    commands: Mapping[str, Callable[[argparse.Namespace], int]],
    program: str,
) -> int:
    """Run a command; or `all`, one after another in an environment that has the compilers."""
    if options.command != "all":
        try:
            return commands[options.command](options)
        except ToastError as error:
            print(f"{error.message} {error.hint}", file=sys.stderr)
            return 2
    rest = list(given)
    rest.remove("all")
    codes = (rerun([command, *rest], program=program) for command in commands)
    return next((code for code in codes if code), 0)
