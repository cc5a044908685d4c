"""Write a step: `python -m examples.libraries bert --preset base -o bert.mlirbc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.forms import FORMS, SUFFIXES, serialize
from examples.libraries import LIBRARIES


def main(arguments: Sequence[str] | None = None) -> int:
    """Lower one step and write it; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    builder = LIBRARIES[options.name]
    if options.preset not in builder.presets:
        parser.error(f"{builder.name} has the presets {', '.join(builder.presets)}")
    if builder.missing():
        parser.error(f"not installed: {', '.join(builder.missing())}; try `.[libraries]`")
    label = f"{builder.name}_{options.preset}"
    output = options.output or Path(label + SUFFIXES[options.form])
    data = serialize(builder.presets[options.preset](), options.form)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(data)
    print(f"{output}: {len(data):,} bytes, {label} as {options.form}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    rows = (
        f"  {builder.name:<20} {builder.summary} ({', '.join(builder.presets)})"
        for builder in LIBRARIES.values()
    )
    parser = argparse.ArgumentParser(
        prog="python -m examples.libraries",
        description="Lower a step of a library's model without allocating it.",
        epilog="steps:\n" + "\n".join(rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=LIBRARIES, metavar="NAME", help="which model")
    parser.add_argument("--preset", default="tiny", help="which size; `tiny` unless given")
    parser.add_argument("--form", choices=FORMS, default="bytecode", help="which form to write")
    parser.add_argument("-o", "--output", type=Path, help="where to; default is here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
