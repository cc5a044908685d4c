"""What is left of an instance, as the flat arrays that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.search.pairwise.choice_kernels import measure
from toast.search.pairwise.reduce import Node, Reduced

WALL = 1e5
"""What is forbidden costs this many times the largest cost where no infinity may be."""


@record
class Compact(NamedTuple):
    """Nodes numbered from 0; `X_start` has one entry more than there are X.

    `cost` [strategies] of all nodes, those of node i from `start[i]`. Each edge is seen from both
    of its ends: entry k of `link_*` (those of node i from `link_start[i]`) is a neighbour, and the
    cell of own strategy s and its strategy t is `cell[link_cell + s * link_own + t * link_other]`.
    Pieces of memory of node i from `piece_start[i]`, in order and apart: times [low, high) and the
    place of its usages in `usage`. `capacity` [times].
    """

    start: Ints
    cost: Floats
    link_start: Ints
    link_node: Ints
    link_cell: Ints
    link_own: Ints
    link_other: Ints
    cell: Floats
    piece_start: Ints
    piece_low: Ints
    piece_high: Ints
    piece_usage: Ints
    usage: Floats
    capacity: Floats

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.start) - 1

    def strategies(self, node: int) -> int:
        """How many strategies a node has."""
        return int(self.start[node + 1] - self.start[node])

    def tables(self) -> Iterator[tuple[int, int, Floats]]:
        """Each edge once: its nodes, the lower first, and its cells."""
        for node in range(self.nodes):
            for k in range(int(self.link_start[node]), int(self.link_start[node + 1])):
                other = int(self.link_node[k])
                if node < other:
                    shape = (self.strategies(node), self.strategies(other))
                    first = int(self.link_cell[k])
                    yield node, other, self.cell[first : first + shape[0] * shape[1]].reshape(shape)

    def memory_row(self, time: int) -> tuple[Ints, Floats]:
        """The strategies that take memory at a time, and how much."""
        alive = np.flatnonzero((self.piece_low <= time) & (time < self.piece_high))
        nodes = np.searchsorted(self.piece_start, alive, side="right") - 1
        columns = [np.arange(self.start[node], self.start[node + 1]) for node in nodes]
        usages = [
            self.usage[first : first + len(row)]
            for first, row in zip(self.piece_usage[alive], columns, strict=True)
        ]
        strategies, usage = _joined(columns).astype(np.int64), _joined(usages)
        return strategies[usage > 0], usage[usage > 0]


def compact(reduced: Reduced) -> Compact:
    """Nodes in ascending order of their number in the instance."""
    nodes = [reduced.nodes[number] for number in sorted(reduced.nodes)]
    place = {number: index for index, number in enumerate(sorted(reduced.nodes))}
    cells, links = _links(nodes, place)
    pieces = [_apart(node) for node in nodes]
    flat = [piece for row in pieces for piece in row]
    ends = np.array([end for row in links for end in row], dtype=np.int64).reshape(-1, 4)
    spans = np.array([span for span, _ in flat], dtype=np.int64).reshape(-1, 2)
    return Compact(
        start=_starts([len(node.cost) for node in nodes]),
        cost=_joined([node.cost for node in nodes]),
        link_start=_starts([len(row) for row in links]),
        link_node=ends[:, 0].copy(),
        link_cell=ends[:, 1].copy(),
        link_own=ends[:, 2].copy(),
        link_other=ends[:, 3].copy(),
        cell=cells,
        piece_start=_starts([len(row) for row in pieces]),
        piece_low=spans[:, 0].copy(),
        piece_high=spans[:, 1].copy(),
        piece_usage=_starts([len(usage) for _, usage in flat])[:-1],
        usage=_joined([usage for _, usage in flat]),
        capacity=reduced.capacity,
    )


def backs(c: Compact) -> Ints:
    """For each link the same edge seen from its other end."""
    ends = np.argsort(c.link_cell, kind="stable")
    found = np.empty(len(ends), dtype=np.int64)
    found[ends[0::2]], found[ends[1::2]] = ends[1::2], ends[0::2]
    return found


def mirrored(c: Compact) -> Compact:
    """The same with the cells of each edge twice, so that each end has its own in order.

    Its links have `link_other` 1. What is forbidden has a high cost.
    """
    sizes = np.diff(c.start)
    node = np.repeat(np.arange(c.nodes), np.diff(c.link_start))
    width = sizes[c.link_node]
    counts = sizes[node] * width
    first = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(first, counts)
    own, other = np.divmod(within, np.repeat(width, counts))
    own *= np.repeat(c.link_own, counts)
    other *= np.repeat(c.link_other, counts)
    cells = c.cell[np.repeat(c.link_cell, counts) + own + other]
    allowed = (values[np.isfinite(values)] for values in (c.cost, c.cell))
    wall = WALL * (1.0 + sum(float(values.max(initial=0.0)) for values in allowed))
    return c._replace(
        cost=np.minimum(c.cost, wall),
        link_cell=first,
        link_own=width.copy(),
        link_other=np.ones_like(width),
        cell=np.minimum(cells, wall),
    )


def _links(
    nodes: list[Node], place: dict[int, int]
) -> tuple[Floats, list[list[tuple[int, int, int, int]]]]:
    """All cells, and per node (neighbour, first cell, own stride, the other's stride)."""
    cells: list[Floats] = []
    links: list[list[tuple[int, int, int, int]]] = [[] for _ in nodes]
    offset = 0
    for index, node in enumerate(nodes):
        for number, table in node.edges.items():
            other = place[number]
            if index < other:
                width = table.shape[1]
                links[index].append((other, offset, width, 1))
                links[other].append((index, offset, 1, width))
                cells.append(np.ascontiguousarray(table).ravel())
                offset += table.size
    return _joined(cells), links


def _apart(node: Node) -> list[tuple[tuple[int, int], Floats]]:
    """The memory of a node as pieces that do not overlap, in order."""
    if not node.pieces:
        return []
    times = np.unique(np.array(list(node.pieces)))
    change = np.zeros((len(times), len(node.cost)))
    for (low, high), usage in node.pieces.items():
        change[np.searchsorted(times, low)] += usage
        change[np.searchsorted(times, high)] -= usage
    alive = np.cumsum(change, axis=0)
    spans = zip(times[:-1].tolist(), times[1:].tolist(), strict=True)
    return [(span, usage) for span, usage in zip(spans, alive, strict=False) if usage.any()]


def _joined(rows: list[Floats]) -> Floats:
    return np.concatenate(rows) if rows else np.zeros(0)


def _starts(counts: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def total(c: Compact, choice: Ints, price: float) -> float:
    """The cost of a choice [nodes] with memory above capacity at `price` a unit."""
    return judged(c, choice, price)[0]


def judged(c: Compact, choice: Ints, price: float) -> tuple[float, Floats]:
    """The same, and the memory above capacity at each time (below it where negative)."""
    memory = np.zeros(len(c.capacity) + 1)
    cost = float(measure(c, choice, memory))
    over = memory[:-1] - c.capacity
    most = float(over.max(initial=0.0))
    return (cost if most <= 0 else cost + price * most), over


def memory_of(c: Compact, values: Ints | Floats) -> Floats:
    """Memory by time of a choice [nodes], or of shares of all strategies [strategies...]."""
    change = np.zeros(len(c.capacity) + 1)
    node = np.repeat(np.arange(c.nodes), np.diff(c.piece_start))
    if np.issubdtype(values.dtype, np.integer):
        usage = c.usage[c.piece_usage + values[node]] if len(node) else np.zeros(0)
    else:
        counts = np.diff(c.start)[node]
        first = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(first, counts)
        shares = values[np.repeat(c.start[node], counts) + within]
        usage = np.add.reduceat(shares * c.usage, first) if len(node) else np.zeros(0)
    np.add.at(change, c.piece_low, usage)
    np.add.at(change, c.piece_high, -usage)
    return np.cumsum(change)[:-1]
