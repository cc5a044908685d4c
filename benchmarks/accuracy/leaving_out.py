"""What a pass is worth: the errors of prices with it and without it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record, compiled, read_records
from benchmarks.accuracy.repricing import reprice
from benchmarks.accuracy.statistics import memory_error, quantile, step_seconds
from benchmarks.accuracy.summary import by
from benchmarks.accuracy.tables import table
from toast.costmodel.passes.registry import known_passes

HEADER = (
    *("target", "cases", "other prices", "memory median", "without", "memory 9 in 10", "without"),
    *("time median", "without", "time 9 in 10", "without"),
)


def compare(
    folder: Path, left_out: Sequence[str], targets: Sequence[str], into: Path | None = None
) -> str:
    """A table of the errors of all cases as they are kept, and of prices without some passes.

    The records of `folder` stay as they are; those of the other prices are kept `into` a folder.
    Raises InvalidRequest for names of no pass.
    """
    known_passes(left_out)
    with tempfile.TemporaryDirectory(prefix="toast-without-") as name:
        fresh = into or Path(name)
        fresh.mkdir(parents=True, exist_ok=True)
        pairs = []
        for path in sorted(folder.glob("*.jsonl")):
            if not any(record["target"] in targets for record in read_records(path)):
                continue
            other = Path(shutil.copy(path, fresh))
            reprice(other, check=False, left_out=left_out)
            pairs += list(zip(read_records(path), read_records(other), strict=True))
    return _table([pair for pair in pairs if compiled(pair) and pair[0]["target"] in targets])


def _table(pairs: Sequence[tuple[Record, Record]]) -> str:
    kept = by([one for one, _ in pairs], "target")
    fresh = by([other for _, other in pairs], "target")
    groups = [(target, rows, fresh[target]) for target, rows in kept.items()]
    if len(groups) > 1:
        groups.append(("all", [one for one, _ in pairs], [other for _, other in pairs]))
    return table(HEADER, [_row(*group) for group in groups])


def _row(target: str, one: list[Record], other: list[Record]) -> list[str]:
    moved = sum(a["predicted"] != b["predicted"] for a, b in zip(one, other, strict=True))
    cells = [target, str(len(one)), str(moved)]
    for errors in (_memory, _time):
        for share in (0.5, 0.9):
            cells += [f"{100 * quantile(errors(rows), share):.1f} %" for rows in (one, other)]
    return cells


def _memory(records: list[Record]) -> list[float]:
    found = (memory_error(record) for record in records)
    return [error for error in found if error is not None]


def _time(records: list[Record]) -> list[float]:
    found = (step_seconds(record) for record in records)
    return [both[0] / both[1] - 1.0 for both in found if both is not None and both[1] > 0.0]
