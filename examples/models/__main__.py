"""Write a model's step: `python -m examples.models t2b --preset paper --scan -o t2b.mlirbc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.forms import FORMS, SUFFIXES, serialize
from examples.models import MODELS


def main(arguments: Sequence[str] | None = None) -> int:
    """Lower one model and write it; prints its size. Returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    model = MODELS[options.name]
    if options.preset not in model.presets:
        parser.error(f"{model.name} has the presets {', '.join(model.presets)}")
    if options.scan and not model.has_scan:
        parser.error(f"{model.name} has no layers to scan over; leave --scan out")
    config = model.config(options.preset, scan=options.scan)
    label = f"{model.name}_{options.preset}" + ("_scan" if options.scan else "")
    output = options.output or Path(label + SUFFIXES[options.form])
    data = serialize(model.make_step(config), options.form, options.platform)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(data)
    print(f"{output}: {len(data):,} bytes, {label} as {options.form}", file=sys.stderr)
    published = model.published.get(options.preset)
    stated = "" if published is None else f" (published: {published:,.0f})"
    print(f"parameters: {model.count(config):,}{stated}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    rows = (f"  {model.name:<11} {model.summary}" for model in MODELS.values())
    parser = argparse.ArgumentParser(
        prog="python -m examples.models",
        description="Lower a model's step without allocating it.",
        epilog="models:\n" + "\n".join(rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=MODELS, metavar="NAME", help="which model")
    parser.add_argument("--preset", default="paper", help="which size; `paper` unless given")
    parser.add_argument("--scan", action="store_true", help="scan over the layers")
    parser.add_argument("--form", choices=FORMS, default="bytecode", help="which form to write")
    parser.add_argument("--platform", help="what an export is for: tpu, cpu, cuda")
    parser.add_argument("-o", "--output", type=Path, help="where to; default is here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
