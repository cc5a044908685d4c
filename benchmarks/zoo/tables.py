"""Both halves side by side, as a table for a terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import needed_bytes
from benchmarks.accuracy.tables import table as markdown
from benchmarks.zoo.cases import LEVELS, Case
from benchmarks.zoo.summary import Summary

GAP = 1.0 / 3.0
"""Errors of the halves further apart than this are a finding to explain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A row: what it is, how it is read off a summary, and what it is to be."""

    name: str
    of: Callable[[Summary], str]
    goal: str = ""


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share * 100:.1f} %"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


FIGURES = (
    Figure(name="programs", of=lambda one: str(one.programs)),
    Figure(name="compilations", of=lambda one: str(one.cases)),
    Figure(name="memory with room, cases", of=lambda one: str(one.room.cases)),
    Figure(name="  mean error", of=lambda one: _percent(one.room.mean)),
    Figure(name="  median error", of=lambda one: _percent(one.room.median), goal="6 %"),
    Figure(name="  nine in ten within", of=lambda one: _percent(one.room.ninth), goal="15 %"),
    Figure(name="  bias (median, signed)", of=lambda one: _percent(one.room_bias)),
    Figure(name="memory pressed, cases", of=lambda one: str(one.pressed.cases)),
    Figure(name="  mean error", of=lambda one: _percent(one.pressed.mean)),
    Figure(name="  median error", of=lambda one: _percent(one.pressed.median), goal="8 %"),
    Figure(name="  nine in ten within", of=lambda one: _percent(one.pressed.ninth), goal="20 %"),
    Figure(name="pressed, laid out of with room", of=lambda one: _percent(one.squeezed)),
    Figure(name="verdicts near the limit", of=lambda one: str(one.verdicts.cases)),
    Figure(name="  right", of=lambda one: _percent(one.verdicts.share), goal="97 %"),
    Figure(name="  called fitting, refused", of=lambda one: str(one.verdicts.false_fits)),
    Figure(name="  not fitting, accepted", of=lambda one: str(one.verdicts.false_refusals)),
    Figure(name="wire, cases with traffic", of=lambda one: str(one.wire.cases)),
    Figure(name="  within 10 %", of=lambda one: _percent(one.wire.near), goal="90 %"),
    Figure(name="  median error", of=lambda one: _percent(one.wire.median)),
    Figure(name="step time, cases", of=lambda one: str(one.time.cases)),
    Figure(name="  mean error", of=lambda one: _percent(one.time.mean)),
    Figure(name="  median error", of=lambda one: _percent(one.time.median), goal="8 %"),
    Figure(name="  nine in ten within", of=lambda one: _percent(one.time.ninth), goal="20 %"),
    Figure(name="Spearman over plans, programs", of=lambda one: str(one.ranked)),
    Figure(name="  median", of=lambda one: _number(one.rank_median), goal="0.95"),
    Figure(name="  least", of=lambda one: _number(one.rank_least), goal="0.8"),
)


def side_by_side(halves: Mapping[str, Sequence[Record]]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table with a column for each half."""
    found = [Summary.of(list(records)) for records in halves.values()]
    rows = [[row.name, *(row.of(one) for one in found), row.goal] for row in FIGURES]
    return ["", *halves, "wanted"], rows


def terminal_table(title: str, halves: Mapping[str, Sequence[Record]]) -> Table:
    """The table for a terminal."""
    header, rows = side_by_side(halves)
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def page_table(halves: Mapping[str, Sequence[Record]]) -> str:
    """The same as Markdown."""
    header, rows = side_by_side(halves)
    return markdown(header, [[row[0].replace("  ", "&nbsp;&nbsp;"), *row[1:]] for row in rows])


def curve_table(records: Sequence[Record]) -> Table:
    """What each case of a half that may be looked into takes with room and pressed, in MiB."""
    levels = sorted({0.0, *LEVELS}, reverse=True)
    names = ["room" if not level else f"left {level:.0%}" for level in [0.0, *levels[:-1]]]
    table = Table(title="Memory with room and pressed, MiB", title_justify="left")
    for number, name in enumerate(("case", "held", "predicted", *names)):
        table.add_column(name, justify="right" if number else "left")
    rows = {row["key"]: row for row in records if "compiled" in row}
    for key, row in rows.items():
        case = Case.parse(key)
        if case != case.room or row["compiled"]["memory"] is None:
            continue
        found = [rows.get(replace(case, level=level).key) for level in (0.0, *levels[:-1])]
        memory = row["compiled"]["memory"]
        held = memory["argument"] + memory["output"] - memory["alias"]
        figures = (held, row["predicted"]["room_bytes"], *map(_laid_out, found))
        table.add_row(key, *("" if one is None else f"{one / 2**20:,.0f}" for one in figures))
    return table


def _laid_out(record: Record | None) -> float | None:
    return None if record is None else needed_bytes(record)


Columns = tuple[tuple[str, Callable[[Summary], str]], ...]
MEMORY: Columns = (
    ("cases", lambda one: str(one.room.cases)),
    ("memory median", lambda one: _percent(one.room.median)),
    ("nine in ten", lambda one: _percent(one.room.ninth)),
)
MAIN: Columns = (
    ("programs", lambda one: str(one.programs)),
    *MEMORY[1:],
    ("wire within 10 %", lambda one: _percent(one.wire.near)),
    ("time median", lambda one: _percent(one.time.median)),
    ("time, nine in ten", lambda one: _percent(one.time.ninth)),
)


def brief_table(
    groups: Mapping[str, Mapping[str, Sequence[Record]]], columns: Columns = MAIN
) -> str:
    """A line for each group, with these figures of both halves, as Markdown."""
    names = list(next(iter(groups.values()), {}))
    header = ["", *(f"{half}: {name}" for half in names for name, _ in columns)]
    rows = [
        [group, *(of(Summary.of(list(halves[half]))) for half in names for _, of in columns)]
        for group, halves in groups.items()
    ]
    return markdown(header, rows)


def is_gap(one: float, other: float) -> bool:
    """Whether the errors of the two halves differ so much that it is a finding."""
    least, most = sorted((one, other))
    return not math.isnan(one + other) and most > 0 and (most - least) / most > GAP
