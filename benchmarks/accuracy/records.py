"""The file of cases: a line of JSON for each, the last line of a case counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
HELD_OUT_PREFIX = "heldout-"


def read_records(path: Path) -> list[Record]:
    """All cases in a file; the last line of each case counts. A torn last line is no case."""
    found: dict[str, Record] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                record: Record = json.loads(line)
            except ValueError:
                continue
            found[record["key"]] = record
    return list(found.values())


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file, all or nothing."""
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(record) + "\n" for record in records))
    fresh.replace(path)


def append_record(path: Path, record: Record) -> None:
    """Add a line; one that an earlier run tore is ended first, so that it spoils no other."""
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a") as file:
        file.write("\n" * torn + json.dumps(record) + "\n")


def tuning(folder: Path) -> list[Record]:
    """The cases that the cost model may be tuned on."""
    return _read_all(path for path in _files(folder) if not _is_held_out(path))


def held_out(folder: Path) -> list[Record]:
    """The cases that nobody looks at while tuning."""
    return _read_all(path for path in _files(folder) if _is_held_out(path))


def compiled(records: Iterable[Record]) -> list[Record]:
    """The cases that count: compiled, and of a module that would be written the same today."""
    return [row for row in records if "compiled" in row and not row.get("stale")]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _is_held_out(path: Path) -> bool:
    return path.name.startswith(HELD_OUT_PREFIX)


def _read_all(paths: Iterable[Path]) -> list[Record]:
    return [record for path in paths for record in read_records(path)]
