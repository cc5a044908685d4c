"""An inspection as one HTML page, for a person: `toast inspect MODULE --html FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from toast.page.drawing import draw
from toast.page.rendering import render_template

MAX_ROWS = 200
"""Rows of each table; `--json` has them all."""


def render_page(inspection: Mapping[str, Any], title: str) -> str:
    """One self-contained HTML page; `title` says which module it is about."""
    graph = inspection["graph"]
    drawn = graph and next(row for row in inspection["sets"] if row["id"] == graph["set"])
    return render_template(
        "toast.inspect",
        "inspection.html",
        found=inspection,
        title=title,
        most=MAX_ROWS,
        drawing=Markup(draw(graph)) if graph else "",
        sides=[_short(text) for text in drawn["resolutions"]] if drawn else [],
    )


def _short(text: str) -> str:
    """A resolution without where it arises: up to its dimension."""
    return text.partition(" of the ")[0]
