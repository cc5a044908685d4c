"""The one form of table that reports are made of."""

from __future__ import annotations

from rich.table import Table


def plain_table(title: str, *columns: str) -> Table:
    """A table without a frame; a column that starts with `>` is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left")
    return table
