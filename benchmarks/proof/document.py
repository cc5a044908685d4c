"""The verdicts as a page and on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record


def report(records: Sequence[Record]) -> str:
    """What was found, in a few lines."""
    return str(Counter(record["verdict"] for record in records))


def write_page(records: Sequence[Record], docs: Path) -> Path:
    """Write docs/proof.md."""
    page = docs / "proof.md"
    page.write_text(report(records))
    return page
