"""DistIR's evaluation on virtual devices: `python -m benchmarks.distir run`, then `write`.

| command | what |
| --- | --- |
| `calibrate` | measure the virtual devices of this machine; the others use what this wrote |
| `run` | simulate and execute all ways of each program |
| `report` | print the rank correlations |
| `write` | write docs/distir.md and its plot |
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from benchmarks.command import new_parser, print_paths

DATA = Path(__file__).parent / "data"
DEVICE_FILE = "cpu.toml"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.command == "calibrate":
        return _calibrate(options.data / DEVICE_FILE)
    if options.command == "run":
        return _run(options)
    from benchmarks.distir.document import correlations, write_page
    from benchmarks.distir.running import read_records

    if options.command == "report":
        print("\n".join(correlations(list(read_records(options.data)))))
        return 0
    return print_paths(write_page(options.data, options.docs))


def _calibrate(path: Path) -> int:
    from benchmarks.distir.grid import DEVICES
    from toast.calibrate.calibration import Calibration, calibrate
    from toast.costmodel.hardware.device_files import write_profile

    fit = calibrate(Calibration(platform="cpu", devices=DEVICES))
    path.write_text(write_profile(fit.device, ["Written by `benchmarks.distir calibrate`."]))
    return print_paths([path])


def _run(options: argparse.Namespace) -> int:
    from benchmarks.distir.grid import parse_way
    from benchmarks.distir.programs import programs
    from benchmarks.distir.running import run, write_records

    some = [parse_way(text) for text in options.ways.split(",")] if options.ways else None
    for name in options.programs or programs():
        measured = run(name, options.device, options.rounds, some)
        path = options.data / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.json"
        write_records(path, measured)
        print_paths([path])
    return 0


def _parser() -> argparse.ArgumentParser:
    commands = ("calibrate", "run", "report", "write")
    parser = new_parser("benchmarks.distir", __doc__, commands, DATA)
    parser.add_argument("--programs", nargs="*", help="only these, such as 'MLP, batch 256'")
    parser.add_argument("--ways", help="only these, such as 8/1/1/1,2/2/2/4")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each way")
    parser.add_argument(
        "--device", type=Path, default=DATA / DEVICE_FILE, help="what `calibrate` wrote"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
