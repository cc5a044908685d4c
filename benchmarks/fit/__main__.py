"""Programs that fit under no layout: `toast plan --fit` beside what people write, compiled.

    .venv-aot/bin/python -m benchmarks.fit run [PROGRAM ...]    what has no record yet
    python -m benchmarks.fit show [PROGRAM ...]                 the table

Programs of the zoo have to be lowered (`python -m benchmarks.zoo lower`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.fit.programs import PROGRAMS
from benchmarks.fit.running import TARGET, cases
from benchmarks.fit.tables import table

DATA = Path(__file__).parent / "data"


def main() -> int:
    """Run what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("run", "show"))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--data", type=Path, default=DATA, help="where records are kept")
    given = parser.parse_args()
    if unknown := sorted(set(given.programs) - set(PROGRAMS)):
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    names, path = given.programs or list(PROGRAMS), _path(given.data)
    if given.command == "run":
        given.data.mkdir(parents=True, exist_ok=True)
        known = {row["key"] for row in read_records(path) if row["compiled"]}
        for name in names:
            for record in cases(name, PROGRAMS[name], known):
                append_record(path, record)
    records = [row for name in names for row in read_records(path) if row["program"] == name]
    Console(width=140).print(table(records))
    return 0


def _path(folder: Path) -> Path:
    return folder / f"{TARGET.replace(':', '-')}.jsonl"


if __name__ == "__main__":
    sys.exit(main())
