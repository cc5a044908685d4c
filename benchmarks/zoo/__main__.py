"""A zoo of public programs beside their compiled selves: `python -m benchmarks.zoo COMMAND`.

| command | what |
| --- | --- |
| `split` | write which half each architecture belongs to |
| `lower` | lower the programs that have no module yet, with the libraries |
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.command import new_parser

DATA = Path(__file__).parent / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    commands = {"split": _split, "lower": _lower}
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


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.zoo", __doc__, ("split", "lower"), DATA)
    parser.add_argument("--only", help="only these architectures, separated by commas")
    return parser


if __name__ == "__main__":
    sys.exit(main())
