"""The page: what a person reads, from the JSON of an inspection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any

from toast.costmodel.hardware.quantities import format_seconds
from toast.inspect.page.drawing import draw
from toast.inspect.page.style import STYLE

Json = Mapping[str, Any]

MAX_ROWS = 200
"""Rows of each table; `--json` has them all."""
MAX_MEMBERS = 60
"""Members of a list that unfolds."""


def render_page(inspection: Json, title: str) -> str:
    """One self-contained HTML page; `title` says which module it is about."""
    body = [
        f'<p class="soft">Named dimensions of</p><h1>{escape(title)}</h1>',
        _summary(inspection),
        _warnings(inspection["warnings"]),
        _sets(inspection),
        _graph(inspection),
        _colours(inspection["colours"]),
        _conflicts(inspection["conflicts"]),
        _groups(inspection["groups"]),
        _no_rule(inspection["no_rule"]),
        _stages(inspection["stages"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: named dimensions</title><style>{STYLE}</style></head>\n"
        f"<body>\n{chr(10).join(part for part in body if part)}\n</body></html>\n"
    )


def _summary(inspection: Json) -> str:
    figures = {key: inspection[key] for key in ("ops", "arguments", "values")}
    figures |= {key: len(inspection[key]) for key in ("colours", "conflicts", "sets")}
    tiles = "".join(
        f'<div class="tile"><b>{count:,}</b>{escape(name)}</div>' for name, count in figures.items()
    )
    total = format_seconds(sum(inspection["stages"].values()))
    return f'<div class="tiles">{tiles}<div class="tile"><b>{total}</b>analysed in</div></div>'


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    return f"<h2>Warnings</h2><ul>{''.join(f'<li>{escape(text)}</li>' for text in warnings)}</ul>"


def _sets(inspection: Json) -> str:
    rows, graph = inspection["sets"], inspection["graph"]
    head = "<h2>What has to be decided</h2>"
    if not rows:
        return (
            f"{head}<p>No tensor has two dimensions of one colour: there is nothing to decide.</p>"
        )
    lead = (
        "<p>Where two dimensions of one tensor have the same colour, only one of them can be "
        "sharded over a mesh axis. Each of these choices is made once and followed at all its "
        "places.</p>"
    )
    drawn = graph["set"] if graph else -1
    shown = rows[:MAX_ROWS]
    return head + lead + "".join(_set(row, row["id"] == drawn) for row in shown) + _cut(rows)


def _set(row: Json, drawn: bool) -> str:
    sides = "".join(
        f'<div><span class="side {kind}">{bit}</span>{escape(text)}</div>'
        for bit, (kind, text) in enumerate(
            zip(("first", "second"), row["resolutions"], strict=True)
        )
    )
    places = (
        f"each of {row['isomorphic']:,} isomorphic sets" if row["isomorphic"] > 1 else "its one set"
    )
    note = (
        f"colour <code>{escape(row['colour'])}</code>, {row['conflicts']:,} conflicts in {places}"
    )
    note += ", drawn below" if drawn else ""
    return (
        f'<div class="card{" drawn" if drawn else ""}"><h3>{row["id"]}. '
        f'{escape(row["description"])}</h3>{sides}<div class="note">{note}</div></div>'
    )


def _graph(inspection: Json) -> str:
    graph = inspection["graph"]
    if graph is None:
        return ""
    sides = [_short(text) for text in inspection["sets"][graph["set"]]["resolutions"]]
    legend = "".join(
        f'<span class="side {kind}">{escape(text)}</span>'
        for kind, text in (
            ("first", f"0: {sides[0]}"),
            ("second", f"1: {sides[1]}"),
            ("near", "next to the set"),
            ("clash", "conflict"),
        )
    )
    return (
        f"<h2>Dimension graph of set {graph['set']}</h2>"
        "<p>Each pill is a dimension name at an op; black arrows are the map from definitions to "
        "uses; a red line joins two names that cannot both be sharded. Resolution 0 shards one "
        f"colour of pills, resolution 1 the other.</p><p>{legend}</p>"
        f'<div class="board">{draw(graph)}</div><p class="note">{_left_out(graph)}</p>'
    )


def _left_out(graph: Json) -> str:
    parts = [f"{len(graph['nodes']):,} names are drawn"]
    if graph["left_out"]:
        parts.append(f"{graph['left_out']:,} more of the set, later in the program, are left out")
    if graph["neighbours_left_out"]:
        parts.append(f"{graph['neighbours_left_out']:,} names next to it are left out")
    return "; ".join(parts) + ("." if len(parts) > 1 else "; nothing is left out.")


def _colours(rows: Sequence[Json]) -> str:
    largest = max((row["size"] for row in rows), default=1)
    body = [
        (
            f"<code>{escape(row['name'])}</code>",
            f"{row['size']:,}{_bar(row['size'] / largest)}",
            f"{row['colours']:,}",
            f"{row['ops']:,}",
            _members(row["arguments"], "argument dimension"),
            _place(row["location"]),
        )
        for row in rows[:MAX_ROWS]
    ]
    lead = (
        "<p>A colour is a set of dimensions that are sharded together; colours of repeated layers "
        "are isomorphic and named once.</p>"
    )
    columns = ("colour", "#size", "#isomorphic", "#ops", "carried by", "first worked on")
    return "<h2>Colours by size</h2>" + lead + _table(columns, body) + _cut(rows)


def _conflicts(rows: Sequence[Json]) -> str:
    if not rows:
        return ""
    body = [
        (
            f"{row['set']}",
            f"<code>{escape(row['op'])}</code>",
            f"<code>{escape(row['tensor'])}</code>",
            escape(" or ".join(row["names"])),
            _place(row["location"]),
            f"<code>{escape(row['colour'])}</code>",
        )
        for row in rows[:MAX_ROWS]
    ]
    columns = ("#set", "op", "tensor", "two of one colour", "source", "colour")
    return "<h2>Conflicts</h2>" + _table(columns, body) + _cut(rows)


def _groups(rows: Sequence[Json]) -> str:
    if not rows:
        return ""
    body = [
        (f"<code>{escape(row['name'])}</code>", _members(row["members"], "argument"))
        for row in rows[:MAX_ROWS]
    ]
    lead = "<p>Arguments of repeated layers are planned alike.</p>"
    return (
        "<h2>Groups of repeated layers</h2>"
        + lead
        + _table(("group", "members"), body)
        + _cut(rows)
    )


def _no_rule(rows: Sequence[Json]) -> str:
    head = "<h2>Ops without a rule</h2>"
    if not rows:
        return f"{head}<p>None: every op has a sharding rule.</p>"
    body = [(f"<code>{escape(row['op'])}</code>", f"{row['count']:,}") for row in rows[:MAX_ROWS]]
    lead = "<p>Nobody knows how these can be split, so they keep every dimension whole.</p>"
    return head + lead + _table(("op", "#count"), body) + _cut(rows)


def _stages(stages: Mapping[str, float]) -> str:
    longest = max(stages.values(), default=1.0) or 1.0
    body = [
        (
            escape(name),
            format_seconds(seconds),
            _bar(seconds / longest),
        )
        for name, seconds in stages.items()
    ]
    return "<h2>Time by stage</h2>" + _table(("stage", "#time", ""), body)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`#` before a column's title says that it holds numbers; cells are HTML."""
    kinds = [' class="number"' if title.startswith("#") else "" for title in columns]
    head = "".join(
        f"<th{kind}>{title.removeprefix('#')}</th>"
        for kind, title in zip(kinds, columns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>'


def _bar(share: float) -> str:
    return f'<div class="bar" style="width:{100 * share:.1f}%"></div>'


def _members(names: Sequence[str], noun: str) -> str:
    """The first few, the rest unfolding."""
    if not names:
        return '<span class="soft">intermediate values alone</span>'
    if len(names) <= 2:
        return ", ".join(f"<code>{escape(name)}</code>" for name in names)
    items = "".join(f"<li><code>{escape(name)}</code></li>" for name in names[:MAX_MEMBERS])
    more = len(names) - MAX_MEMBERS
    tail = f"<li>and {more:,} more</li>" if more > 0 else ""
    return f"<details><summary>{len(names):,} {noun}s</summary><ul>{items}{tail}</ul></details>"


def _place(location: str) -> str:
    return f'<span class="mono" title="{escape(location)}">{escape(PurePath(location).name)}</span>'


def _short(text: str) -> str:
    """A resolution without where it arises: up to its dimension."""
    return text.partition(" of the ")[0]


def _cut(rows: Sequence[Json]) -> str:
    left = len(rows) - MAX_ROWS
    return f'<p class="note">And {left:,} more; --json has all.</p>' if left > 0 else ""
