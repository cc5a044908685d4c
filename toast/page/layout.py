"""Where the ops of a dimension graph stand: networkx finds the layers, rows run downwards.

Edges that pass over layers go through a slot of each, so that they run beside the ops and not
behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

Node = int | tuple[int, int, int]
"""An op, or (source op, target op, layer) for the slot of a passing edge."""

BLOCK_WIDTH, SLOT_WIDTH, GAP = 228.0, 14.0, 18.0
ROW_HEIGHT = 100.0
MAX_ABREAST = 4
SWEEPS, SETTLING = 24, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Centres in pixels: of each op, and of the slots of each edge between ops, in order."""

    ops: Mapping[int, tuple[float, float]]
    bends: Mapping[tuple[int, int], Sequence[tuple[float, float]]]
    width: float
    height: float


def lay_out(ops: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place ops in layers such that every edge runs downwards.

    `edges` are between ops of `ops` and run forward in program order.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(ops)
    graph.add_edges_from((a, b) for a, b in edges if a != b)
    layers = _layers(graph)
    slotted, rows = _with_slots(graph, layers)
    _untangle(slotted, rows)
    x = _columns(slotted, rows)
    left = min((x[node] - _width(node) / 2 for node in x), default=0.0)
    at = {
        node: (x[node] - left, (index + 0.5) * ROW_HEIGHT)
        for index, row in enumerate(rows)
        for node in row
    }
    return Layout(
        ops={op: at[op] for op in ops},
        bends={
            (a, b): [at[a, b, i] for i in range(len(layers)) if (a, b, i) in at]
            for a, b in graph.edges
        },
        width=max((x[n] + _width(n) / 2 - left for n in x), default=0.0),
        height=len(rows) * ROW_HEIGHT,
    )


def _layers(graph: Any) -> list[list[int]]:
    """Layers such that edges run downwards and few of them are long."""
    layer_of = {
        op: index for index, ops in enumerate(nx.topological_generations(graph)) for op in ops
    }
    # The first layer possible is rarely the best: who takes no more than it feeds moves down.
    for op in reversed(list(nx.topological_sort(graph))):
        if graph.out_degree(op) >= max(1, graph.in_degree(op)):
            layer_of[op] = min(layer_of[after] for after in graph.successors(op)) - 1
    return _narrowed(graph, layer_of)


def _narrowed(graph: Any, wanted: Mapping[int, int]) -> list[list[int]]:
    """At most `MAX_ABREAST` ops in a layer: what has no room in its own goes further down."""
    layer_of: dict[int, int] = {}
    layers: list[list[int]] = [[] for _ in range(max(wanted.values(), default=-1) + 1)]
    for op in nx.lexicographical_topological_sort(graph, key=lambda op: (wanted[op], op)):
        layer = max([wanted[op], *(layer_of[before] + 1 for before in graph.predecessors(op))])
        while layer < len(layers) and len(layers[layer]) >= MAX_ABREAST:
            layer += 1
        layers += [[] for _ in range(layer + 1 - len(layers))]
        layers[layer].append(op)
        layer_of[op] = layer
    return [layer for layer in layers if layer]


def _with_slots(graph: Any, layers: Sequence[Sequence[int]]) -> tuple[Any, list[list[Node]]]:
    """The graph with every edge cut at each layer that it passes."""
    layer_of = {op: index for index, layer in enumerate(layers) for op in layer}
    rows: list[list[Node]] = [list(layer) for layer in layers]
    slotted = nx.DiGraph()
    slotted.add_nodes_from(graph)
    for a, b in graph.edges:
        path: list[Node] = [a]
        for index in range(layer_of[a] + 1, layer_of[b]):
            rows[index].append((a, b, index))
            path.append((a, b, index))
        nx.add_path(slotted, [*path, b])
    return slotted, rows


def _untangle(graph: Any, rows: list[list[Node]]) -> None:
    """Order each row by the mean place of its neighbours, down and up in turn."""
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for index in range(len(rows)) if down else reversed(range(len(rows))):
            beside = index - 1 if down else index + 1
            if not 0 <= beside < len(rows):
                continue
            place = {node: i / max(1, len(rows[beside]) - 1) for i, node in enumerate(rows[beside])}
            own = {node: i / max(1, len(rows[index]) - 1) for i, node in enumerate(rows[index])}
            near = graph.predecessors if down else graph.successors
            mean = {n: _mean([place[m] for m in near(n) if m in place], own[n]) for n in own}
            rows[index].sort(key=mean.__getitem__)


def _columns(graph: Any, rows: Sequence[Sequence[Node]]) -> dict[Node, float]:
    """The middle of each node: near its neighbours, in order, apart, and within the widest row."""
    board = max((sum(_width(n) + GAP for n in row) - GAP for row in rows), default=0.0)
    x: dict[Node, float] = {}
    for row in rows:
        x.update(_apart(row, dict.fromkeys(row, 0.0), board))
    for sweep in range(SETTLING):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {n: _mean([x[m] for m in nx.all_neighbors(graph, n)], x[n]) for n in row}
            x.update(_apart(row, wanted, board))
    return x


def _apart(row: Sequence[Node], wanted: Mapping[Node, float], board: float) -> dict[Node, float]:
    """Places in the order of the row, as near to those wanted as widths and the board allow."""
    placed: dict[Node, float] = {}
    edge = float("-inf")
    for node in row:
        half = _width(node) / 2
        placed[node] = max(wanted[node], edge + half)
        edge = placed[node] + half + GAP
    shift = _mean([wanted[node] - placed[node] for node in row], 0.0)
    edge = -board / 2
    for node in row:
        placed[node] = max(placed[node] + shift, edge + _width(node) / 2)
        edge = placed[node] + _width(node) / 2 + GAP
    edge = board / 2
    for node in reversed(row):
        placed[node] = min(placed[node], edge - _width(node) / 2)
        edge = placed[node] - _width(node) / 2 - GAP
    return placed


def _width(node: Node) -> float:
    return BLOCK_WIDTH if isinstance(node, int) else SLOT_WIDTH


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
