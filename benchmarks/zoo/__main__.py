"""A zoo of public programs beside their compiled selves: `python -m benchmarks.zoo COMMAND`.

| command | what |
| --- | --- |
| `split` | write which half each architecture belongs to |
| `lower` | lower the programs that have no module yet, with the libraries |
| `compile` | plan and compile what has no record yet, one at a time |
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import get_args

from benchmarks.command import new_parser
from benchmarks.zoo.cases import V5E
from benchmarks.zoo.split import Half

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    commands = {"split": _split, "lower": _lower, "compile": _compile}
    return commands[options.command](options)


def _split(options: argparse.Namespace) -> int:
    from benchmarks.zoo.registry import architectures
    from benchmarks.zoo.split import write_split

    halves = write_split(architectures())
    held = sum(half == "held-out" for half in halves.values())
    print(f"{len(halves)} architectures, {held} held out", file=sys.stderr)
    return 0


def _lower(options: argparse.Namespace) -> int:
    import jax

    from benchmarks.zoo.lowering import lower_all
    from benchmarks.zoo.registry import architectures

    # Paths in locations start at the package, so that modules do not depend on the machine.
    jax.config.update(
        "jax_hlo_source_file_canonicalization_regex", r".*/(?:site-packages/|(?=benchmarks/))"
    )
    jax.config.update("jax_include_full_tracebacks_in_locations", False)
    wanted = options.only.split(",") if options.only else None
    rows = [row for name, row in architectures().items() if wanted is None or name in wanted]
    lowered, failed = lower_all(rows)
    print(f"{lowered} programs lowered, {failed} failed", file=sys.stderr)
    return 0


def _compile(options: argparse.Namespace) -> int:
    from benchmarks.accuracy.records import read_records
    from benchmarks.zoo.cases import all_cases
    from benchmarks.zoo.compiling import compile_all
    from benchmarks.zoo.lowering import PROGRAMS, path_of

    facts = [row for row in read_records(PROGRAMS) if options.half in (None, row["half"])]
    names = [row["key"] for row in facts if "digest" in row and path_of(row["key"]).exists()]
    if options.only:
        wanted = options.only.split(",")
        names = [name for name in names if name in wanted or name.split("/")[0] in wanted]
    os.nice(10)  # the compiler takes every core for minutes
    count = compile_all(
        all_cases(names, options.target.split(","), memory_only=options.memory_only),
        options.data,
        memory_only=options.memory_only,
        limit=options.limit,
        seconds=options.time_limit,
        seconds_each=options.seconds_each,
    )
    print(f"{count} cases compiled", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.zoo", __doc__, ("split", "lower", "compile"), DATA)
    parser.add_argument("--only", help="only these architectures or programs, between commas")
    parser.add_argument("--target", default=V5E, help="what to compile for, between commas")
    parser.add_argument("--half", choices=get_args(Half), help="only this half")
    parser.add_argument("--memory-only", action="store_true", help="end when memory is laid out")
    parser.add_argument("--limit", type=int, help="compile at most this many cases")
    parser.add_argument(
        "--seconds-each", type=float, default=900.0, help="give up a case after so many"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
