"""The page `docs/fit.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.tables import table as markdown
from benchmarks.fit.programs import PROGRAMS
from benchmarks.fit.tables import COLUMNS, OF_THE_BEST, against_hand, row

LINKS = ("time.md", "recompute.md")
TEMPLATE = Path(__file__).with_name("page.md")


def write_page(records: Sequence[Record], docs: Path) -> Path:
    """Write the page into `docs`; returns the file."""
    named = {record["program"] for record in records}
    programs = [(name, one.about, one.mesh) for name, one in PROGRAMS.items() if name in named]
    rows = [[*row(record), against_hand(record, records)] for record in records]
    page = TEMPLATE.read_text(encoding="utf-8")
    page = page.replace("[LINKS]", ", ".join(f"[{one}]({one})" for one in LINKS))
    page = page.replace("[PROGRAMS]", markdown(("program", "what", "mesh"), programs))
    page = page.replace("[STEPS]", markdown((*COLUMNS, OF_THE_BEST), rows))
    path = docs / "fit.md"
    docs.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path
