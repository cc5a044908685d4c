"""The one form of table that reports are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_SEPARATOR = re.compile(r"(?<=[/ ])|(?=[\[.])")
"""Where a name may go on in the next line: between the steps of a path, or between words."""
_COMMA = re.compile(r"(?<=,)")
"""Where a step that stands for several may, if it is wider than the column."""
INDENT = "  "
"""Before what goes on."""


class Name:
    """A long name in a cell: where there is too little room it breaks between steps of its path.

    Only a step that is wider than the column breaks within, at its commas if it has any.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces = [piece for piece in _SEPARATOR.split(text) if piece]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the widest piece to all in one line."""
        pieces = [part for piece in self._pieces for part in _COMMA.split(piece)]
        widest = len(INDENT) + max((len(piece.rstrip()) for piece in pieces), default=0)
        whole = len(self._text)
        return Measurement(min(widest, whole), whole).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many pieces a line as there is room for."""
        yield Text("\n".join(self._lines(options.max_width)), overflow="fold")

    def _lines(self, width: int) -> list[str]:
        lines = [""]
        for piece in self._pieces_for(width - len(INDENT)):
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                room = len(INDENT + piece.strip()) <= width
                lines.append(INDENT if room else "")
            lines[-1] += piece
        return [line.rstrip() for line in lines]

    def _pieces_for(self, width: int) -> Iterator[str]:
        for piece in self._pieces:
            if len(piece.rstrip()) > width:
                yield from filter(None, _COMMA.split(piece))
            else:
                yield piece


def plain_table(title: str, *columns: str) -> Table:
    """A table without a frame; a column that starts with `>` is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", no_wrap=right)
    return table
