"""Programs that fit under no layout: `toast plan --fit` beside what people write, compiled.

| command | what |
| --- | --- |
| `run` | plan, write by hand and compile what has no record yet; wants `.venv-aot` |
| `show` | print the table |
| `write` | write docs/fit.md |

Programs of the zoo have to be lowered (`python -m benchmarks.zoo lower`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.command import new_parser, print_paths
from benchmarks.fit.document import write_page
from benchmarks.fit.programs import PROGRAMS
from benchmarks.fit.running import TARGET, cases
from benchmarks.fit.tables import table

DATA = Path(__file__).parent / "data"


def main() -> int:
    """Do what is asked for; returns the exit code."""
    parser = new_parser("benchmarks.fit", __doc__, ("run", "show", "write"), DATA)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    given = parser.parse_args()
    if unknown := sorted(set(given.programs) - set(PROGRAMS)):
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    names, path = given.programs or list(PROGRAMS), _path(given.data)
    if given.command == "run":
        _run(names, path)
    records = [row for name in names for row in read_records(path) if row["program"] == name]
    if given.command == "write":
        return print_paths([write_page(records, given.docs)])
    Console(width=140).print(table(records))
    return 0


def _run(names: list[str], path: Path) -> None:
    """Append a record for each case that has none with a compiled program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known: set[str] = {row["key"] for row in _all(path) if row["compiled"]}
    for name in names:
        for record in cases(name, PROGRAMS[name], known):
            append_record(path, record)


def _all(path: Path) -> list[Record]:
    return list(read_records(path))


def _path(folder: Path) -> Path:
    return folder / f"{TARGET.replace(':', '-')}.jsonl"


if __name__ == "__main__":
    sys.exit(main())
