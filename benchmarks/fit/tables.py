"""The records as a table: memory and step time, predicted and compiled."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.accuracy.records import Record
from benchmarks.fit.running import OURS, seconds_of
from toast.aot import Verdict

GIB = 2**30
COLUMNS = (
    "program",
    "written",
    "parts",
    "layers",
    "predicted GiB",
    "compiled",
    "step ms",
    "compiled",
)
OF_THE_BEST = "of the best by hand"


def table(records: Sequence[Record]) -> Table:
    """A row for each record; beside ours what it takes of the best by hand."""
    made = Table(box=None, pad_edge=False)
    for number, column in enumerate((*COLUMNS, OF_THE_BEST)):
        made.add_column(column, justify="left" if number < 2 else "right")
    for record in records:
        made.add_row(*row(record), against_hand(record, records))
    return made


def row(record: Record) -> tuple[str, ...]:
    """What the table says of a record."""
    predicted, verdict = record["predicted"], _verdict(record)
    return (
        record["program"],
        OURS if record["how"] == OURS else f"by hand, {record['layout']}",
        str(record["microbatches"]),
        record["recompute"] or "none",
        f"{predicted['peak_bytes'] / GIB:.2f}",
        _memory(verdict),
        f"{seconds_of(predicted) * 1e3:,.1f}",
        "" if (seconds := _seconds(record)) is None else f"{seconds * 1e3:,.1f}",
    )


def against_hand(record: Record, records: Sequence[Record]) -> str:
    """For ours: its compiled step over the fastest one by hand that the compiler accepts."""
    ours = _seconds(record)
    others = (row for row in records if row["program"] == record["program"] and row["how"] != OURS)
    by_hand = [seconds for other in others if (seconds := _seconds(other)) is not None]
    if record["how"] != OURS or ours is None or not by_hand:
        return ""
    return f"{ours / min(by_hand):.2f}"


def _memory(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not"
    needed = verdict.needed_bytes
    said = "" if needed is None else f"{needed / GIB:.2f}"
    return f"refused, {said}" if verdict.refusal else said


def _seconds(record: Record) -> float | None:
    verdict = _verdict(record)
    return None if verdict is None or verdict.refusal else verdict.step_seconds


def _verdict(record: Record) -> Verdict | None:
    found = record["compiled"]
    return None if found is None else Verdict.from_dict(found)
