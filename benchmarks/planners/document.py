"""The part of `docs/planners.md` that this benchmark writes, between its two marks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.tables import table
from benchmarks.planners import tables
from benchmarks.planners.layouts import LAYOUTS
from benchmarks.planners.peer import BUDGET_GB, PACKAGE
from benchmarks.planners.plots import draw

BEGIN, END = "<!-- benchmarks.planners -->", "<!-- end of benchmarks.planners -->"
PLOT = "planners.svg"
TEXT = f"""\
## Against layouts by hand and XLA's own auto-sharding

Made by `python -m benchmarks.planners all`. Every plan is judged by its compiled program and never
by our own cost model: a step takes what the compiler for the chip estimates for its computation,
and its collectives by the tables of [devices.md](devices.md). Memory is what the compiled program
needs on a device; a plan that the compiler refuses is too large. The compiler for GPUs gives no
times, so on GPUs only memory is compared. The cases are in `benchmarks/planners/data`.

Layouts by hand are those of TOAST section 5.1.1 and their parts. The compiler gets each as it gets
a plan: layouts of arguments, and of the places where a parameter is gathered or a sum scattered. Of
the axes of a mesh the last is for the model and the others are for the rows. XLA's own is the ILP
inside libtpu, with `{PACKAGE}`, once with {BUDGET_GB} GB for memory and once without
(`-unbounded`). Planner and compiler are one there, so its planner time is that of both. It plans
cut programs only, which take it minutes already. Programs with a number in their names are cut to
so many layers or steps at full width. Planner times are from the bytes of the module to the state,
on one thread of a machine shared with other work.
"""


def write_page(data: Path, docs: Path) -> list[Path]:
    """Write the section and its plot into `docs`; returns the files."""
    page = docs / "planners.md"
    matches = tables.read_matches(data)
    plot = draw(matches, docs / PLOT)
    parts = [TEXT.strip()]
    if matches:
        parts += [tables.summary(matches), tables.losses(matches), tables.fitting(matches)]
        parts += [f"![step time over that of our plan]({PLOT})"] if plot else []
        parts += [
            "Milliseconds of a step:",
            tables.ahead(matches),
            "Memory of a device:",
            tables.memory(matches),
            "### The layouts by hand",
            _layouts(),
            "### Every plan",
            tables.every(matches),
        ]
    page.write_text(replaced(page.read_text(), "\n\n".join(parts)))
    return [page, *([plot] if plot else [])]


def replaced(text: str, section: str) -> str:
    """The page with what is between the marks replaced; at its end where there are none yet."""
    before, mark, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if mark else "\n"
    return f"{before.rstrip()}\n\n{BEGIN}\n\n{section}\n\n{END}{after}"


def _layouts() -> str:
    rows = [
        [family, name, f"`{parts}`"]
        for family, layouts in LAYOUTS.items()
        for name, parts in layouts.items()
    ]
    return table(("family", "layout", "tactics and their axes, the first come first"), rows)
