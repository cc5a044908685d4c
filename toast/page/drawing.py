"""The dimension graph as inline SVG: names as pills, M as arrows, conflicts as red lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any

from toast.page.layout import BLOCK_WIDTH, ROW_HEIGHT, Layout, lay_out

Json = Mapping[str, Any]
Point = tuple[float, float]

BLOCK_HEIGHT = 66.0
PILL_WIDTH, PILL_HEIGHT, PILL_OFFSET = 88.0, 24.0, 13.0
MARGIN = 14.0
LANE = 5.0
"""Arrows of the two sides keep this far from the middle of a slot that they share."""
CLASSES = {0: "first", 1: "second", -1: "outside"}


def draw(graph: Json) -> str:
    """An `<svg>` of the `graph` part of an inspection."""
    nodes, edges = _unshared(graph["nodes"], graph["edges"])
    blocks = _blocks(nodes)
    op_of = {node["id"]: node["op_number"] for node in nodes}
    forward = [edge for edge in edges if op_of[edge["source"]] < op_of[edge["target"]]]
    pairs = [(op_of[edge["source"]], op_of[edge["target"]]) for edge in forward]
    layout = lay_out(list(blocks), list(dict.fromkeys(pairs)))
    pills = _pills(blocks, layout)
    side = {node["id"]: node["side"] for node in nodes}
    parts = []
    for edge in forward:
        ends = op_of[edge["source"]], op_of[edge["target"]]
        lane = LANE * (-1 if side[edge["source"]] == 0 else 1)
        bends = [(x + lane, y) for x, y in layout.bends[ends]]
        parts.append(_edge(edge, pills, bends))
    parts += [_block(layout.ops[op], held) for op, held in blocks.items()]
    parts += [_conflict(pills[a], pills[b]) for a, b in graph["conflicts"]]
    parts += [_pill(pills[node["id"]], node) for node in nodes]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    return (
        f'<svg class="graph" role="img" aria-label="dimension graph" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="{-MARGIN} {-MARGIN} {width:.0f} {height:.0f}">'
        f"{ARROW}{''.join(parts)}</svg>"
    )


def _unshared(nodes: Sequence[Json], edges: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Names next to the set drawn once for each op that they touch, close to it.

    Their copies have numbers between those of the ops: order is all that the layout needs.
    """
    outside = {node["id"]: node for node in nodes if node["side"] < 0}
    op_of = {node["id"]: node["op_number"] for node in nodes}
    kept = [node for node in nodes if node["side"] >= 0]
    copies: dict[tuple[int, int], Json] = {}
    drawn: list[Json] = []
    for edge in edges:
        ends = {"source": edge["source"], "target": edge["target"]}
        for end, other in (("source", "target"), ("target", "source")):
            if edge[end] in outside and edge[other] not in outside:
                key = (edge[end], op_of[edge[other]])
                number = -len(copies) - 1
                copy = {**outside[edge[end]], "id": number, "op_number": 0}
                copies.setdefault(key, copy)
                ends[end] = copies[key]["id"]
        drawn.append({**edge, **ends})
    return _renumbered(kept, copies, drawn), drawn


def _renumbered(
    kept: Sequence[Json], copies: Mapping[tuple[int, int], Json], edges: Sequence[Json]
) -> list[Json]:
    """Ops of the set get even numbers in order; copies odd ones beside the op they touch."""
    order = {op: i for i, op in enumerate(sorted({node["op_number"] for node in kept}))}
    step = 2 * len(copies) + 2
    found: list[Json] = [
        {**node, "op_number": step * order[node["op_number"]], "true_op": node["op_number"]}
        for node in kept
    ]
    sources = {edge["source"] for edge in edges}
    for index, ((name, op), copy) in enumerate(copies.items()):
        shift = -(index + 1) if copy["id"] in sources else index + 1
        found.append({**copy, "op_number": step * order[op] + shift, "true_op": name})
    return found


ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path class="head" d="M0 0.8 8 4 0 7.2z"/></marker></defs>'
)


def _blocks(nodes: Iterable[Json]) -> dict[int, list[Json]]:
    """The names of each op in program order, those of the first side before the second."""
    blocks: dict[int, list[Json]] = {}
    for node in sorted(nodes, key=lambda node: (node["op_number"], node["side"], node["id"])):
        blocks.setdefault(node["op_number"], []).append(node)
    return blocks


def _pills(blocks: Mapping[int, Sequence[Json]], layout: Layout) -> dict[int, Point]:
    """The centre of each name's pill, in the lower half of its op's block."""
    found: dict[int, Point] = {}
    for op, nodes in blocks.items():
        x, y = layout.ops[op]
        step = min(PILL_WIDTH + 34, (BLOCK_WIDTH - PILL_WIDTH - 8) / max(1, len(nodes) - 1))
        for index, node in enumerate(nodes):
            found[node["id"]] = (x + (index - (len(nodes) - 1) / 2) * step, y + PILL_OFFSET)
    return found


def _edge(edge: Json, pills: Mapping[int, Point], bends: Sequence[Point]) -> str:
    """An arrow of M through the slots that are kept for it."""
    (x0, y0), (x1, y1) = pills[edge["source"]], pills[edge["target"]]
    at = (x0, y0 - PILL_OFFSET + BLOCK_HEIGHT / 2)
    end = (x1, y1 - PILL_OFFSET - BLOCK_HEIGHT / 2 - 1)
    path = f"M{at[0]:.1f} {at[1]:.1f}"
    for x, y in bends:
        path += _curve(at, (x, y - BLOCK_HEIGHT / 2)) + f"V{y + BLOCK_HEIGHT / 2:.1f}"
        at = (x, y + BLOCK_HEIGHT / 2)
    kind = "edge linked" if edge["linked"] else "edge"
    return f'<path class="{kind}" d="{path}{_curve(at, end)}" marker-end="url(#arrow)"/>'


def _curve(start: Point, end: Point) -> str:
    reach = min(ROW_HEIGHT / 2, abs(end[1] - start[1]) * 0.6)
    return (
        f"C{start[0]:.1f} {start[1] + reach:.1f} {end[0]:.1f} {end[1] - reach:.1f} "
        f"{end[0]:.1f} {end[1]:.1f}"
    )


def _block(centre: Point, nodes: Sequence[Json]) -> str:
    x, y = centre[0] - BLOCK_WIDTH / 2, centre[1] - BLOCK_HEIGHT / 2
    node = nodes[0]
    outside = " outside" if all(each["side"] < 0 for each in nodes) else ""
    place = PurePath(node["location"]).name
    return (
        f"<g><title>{escape(node['op'])}#{node['op_number']} {escape(node['location'])}</title>"
        f'<rect class="block{outside}" x="{x:.1f}" y="{y:.1f}" width="{BLOCK_WIDTH}" '
        f'height="{BLOCK_HEIGHT}" rx="8"/>'
        f'<text class="op" x="{x + 10:.1f}" y="{y + 18:.1f}">{escape(_cut(node["op"], 16))}</text>'
        f'<text class="place" x="{x + BLOCK_WIDTH - 10:.1f}" y="{y + 18:.1f}">'
        f"{escape(_cut(place, 17))}</text></g>"
    )


def _conflict(first: Point, second: Point) -> str:
    (x0, y0), (x1, y1) = first, second
    return f'<line class="conflict" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'


def _pill(centre: Point, node: Json) -> str:
    x, y = centre[0] - PILL_WIDTH / 2, centre[1] - PILL_HEIGHT / 2
    title = f"{node['op']}: {node['dim']}, size {node['size']:,}"
    return (
        f'<g class="pill {CLASSES[node["side"]]}"><title>{escape(title)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{PILL_WIDTH}" height="{PILL_HEIGHT}" rx="12"/>'
        f'<text x="{centre[0]:.1f}" y="{centre[1] + 4:.1f}">{escape(_cut(node["dim"], 14))}</text>'
        "</g>"
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
