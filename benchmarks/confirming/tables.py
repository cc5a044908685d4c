"""The table of confirmed plans beside the best control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.tables import table
from toast.pipeline.confirm.compilations import BEATEN

BEGIN, END = "<!-- benchmarks.confirming -->", "<!-- end of benchmarks.confirming -->"
MISSING = ""
NONE_CAN = "none can be"
"""In place of the best control, where the collectives of each take longer than the plan's step."""


def report(folder: Path) -> str:
    """All programs that were planned, and a line that counts them."""
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read_records(path)]
    done = [row for row in rows if "confirmed" in row]
    head = (
        "program",
        "target",
        "ours, ms",
        "confirmed",
        "ms",
        "best control",
        "ms",
        "ratio",
        "refused",
    )
    lines = [_line(row) for row in done]
    slower = [line[0] for line in lines if line[7] and float(line[7]) > 1]
    refused = [row["model"] for row in done if is_refused(row)]
    said = (
        f"{len(done)} programs; slower than the best control: {', '.join(slower) or 'none'}; "
        f"refused where a control fits: {', '.join(refused) or 'none'}; "
        f"failed: {', '.join(row['model'] for row in rows if 'error' in row) or 'none'}."
    )
    return "\n\n".join((said, table(head, lines)))


def is_refused(record: Record) -> bool:
    """Whether the compiler refused the plan that was taken, and accepted a control."""
    confirmed = record["confirmed"]
    controls = [row for row in confirmed["plans"] if row["control"] and row["compiled"]]
    return confirmed["fits"] is False and any(row["compiled"]["fits"] for row in controls)


def write_page(folder: Path, docs: Path) -> Path:
    """Write the table between its marks in `docs/confirm.md`."""
    page = docs / "confirm.md"
    before, mark, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2] if mark else "\n"
    page.write_text(f"{before.rstrip()}\n\n{BEGIN}\n\n{report(folder)}\n\n{END}{after}")
    return page


def _line(record: Record) -> list[str]:
    plans = record["confirmed"]["plans"]
    chosen = next((row for row in plans if row["chosen"]), None)
    controls = [row for row in plans if row["control"]]
    timed = [row for row in controls if _seconds(row) is not None]
    best = min(timed, key=lambda row: _seconds(row) or 0.0, default=None)
    beaten = controls and all(row.get("note") == BEATEN for row in controls)
    own = [_seconds(row) for row in plans if not row["control"]]
    ours, theirs = _seconds(chosen), _seconds(best)
    ratio = f"{ours / theirs:.3f}" if ours and theirs else MISSING
    refused = [row["kind"] for row in plans if row["compiled"] and not row["compiled"]["fits"]]
    return [
        record["model"],
        record["target"],
        _ms(min((one for one in own if one is not None), default=None)),
        chosen["kind"] if chosen else MISSING,
        _ms(ours),
        best["kind"] if best else NONE_CAN if beaten else MISSING,
        _ms(theirs),
        ratio,
        ", ".join(refused),
    ]


def _seconds(row: dict[str, Any] | None) -> float | None:
    """The step as compiled, of a program that fits and was compiled whole."""
    found = (row or {}).get("compiled")
    step: float | None = found["step_seconds"] if found and found["fits"] else None
    return step


def _ms(seconds: float | None) -> str:
    return MISSING if seconds is None else f"{seconds * 1e3:.2f}"
