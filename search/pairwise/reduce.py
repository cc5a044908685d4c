"""Makes an instance smaller without losing its optimum.

What is done until nothing changes: strategies without an allowed partner and dominated strategies
go; a node that another one determines, or that has one strategy left, is merged away; a node
without memory that has one or two neighbours is eliminated by taking its best strategy for each
choice of theirs; times at which the limit cannot be exceeded, or that another time implies, go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.instance import Instance

Flags = NDArray[np.bool_]
Span = tuple[int, int]
"""First time, and the first one after."""

MAX_CELLS = 40_000
"""A node is not eliminated where the edge between its two neighbours would be larger."""
MAX_WORK = 4_000_000


@dataclass(slots=True)
class Node:
    """A node that is left: the numbers of its strategies before, costs, memory, neighbours.

    `pieces[low, high]` the usages over that span; `edges[j]` [own strategies, strategies of j].
    """

    keep: Ints
    cost: Floats
    pieces: dict[Span, Floats] = field(default_factory=dict)
    edges: dict[int, Floats] = field(default_factory=dict)

    def add(self, span: Span, usage: Floats) -> None:
        """Add to the memory over a span."""
        known = self.pieces.get(span)
        self.pieces[span] = usage if known is None else known + usage

    def usages(self) -> Floats:
        """All pieces, [pieces, strategies]."""
        rows = list(self.pieces.values())
        return np.stack(rows) if rows else np.zeros((0, len(self.cost)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A node merged away: its strategy is `pick[strategies of others...]` of `others`."""

    node: int
    others: tuple[int, ...]
    pick: Ints


class _Waiting:
    """Numbers in the order in which they came, each once."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._held: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, number: int) -> None:
        if number not in self._held:
            self._held.add(number)
            self._order.append(number)

    def take(self) -> int:
        number = self._order.popleft()
        self._held.remove(number)
        return number

    def fill(self, numbers: Iterable[int]) -> None:
        """These and no others."""
        self._order = deque(numbers)
        self._held = set(self._order)


class Reduced:
    """The smaller problem, and the way back.

    `capacity[t]` is what the limit leaves at each time that matters; pieces count from these
    times. `infeasible` where no choice is allowed at all. Once `stopped` it stays as it is by then,
    which is as exact and only larger.
    """

    def __init__(self, instance: Instance, *, stopped: Callable[[], bool] = lambda: False) -> None:
        self._original, self._stopped = instance, stopped
        self.constant = instance.constant
        self.excess = instance.excess
        self.nodes = _nodes(instance)
        self.capacity: Floats = np.zeros(0)
        self.infeasible = False
        self._gone: list[Gone] = []
        self._queue = _Waiting()
        self._start_times()
        self._queue.fill(self.nodes)
        self._run()

    def lift(self, choice: dict[int, int]) -> list[int]:
        """The choice for the original problem that a choice for what is left stands for."""
        full = [0] * self._original.nodes
        chosen = {node: int(self.nodes[node].keep[pick]) for node, pick in choice.items()}
        for gone in reversed(self._gone):
            chosen[gone.node] = int(gone.pick[tuple(chosen[other] for other in gone.others)])
        for node, pick in chosen.items():
            full[node] = pick
        return full

    def lower(self, choice: Sequence[int]) -> dict[int, int]:
        """The choice for what is left, strategies that went replaced by the first that stayed."""
        found = {}
        for number, node in self.nodes.items():
            place = np.flatnonzero(node.keep == choice[number])
            found[number] = int(place[0]) if len(place) else 0
        return found

    def _run(self) -> None:
        """First what is cheap, over all nodes; then all of it, until nothing changes."""
        self._trim_times()
        self._sweep(self._link)
        while self._queue and not self.infeasible and not self._stopped():
            self._trim_times()
            self._sweep(self._visit)
            self._trim_times()

    def _sweep(self, visit: Callable[[int], None]) -> None:
        """Visit every node in the queue, and those that this puts there."""
        while self._queue and not self.infeasible and not self._stopped():
            number = self._queue.take()
            if number in self.nodes:
                visit(number)
        if visit == self._link:
            self._queue.fill(self.nodes)

    def _link(self, number: int) -> None:
        """Merge the node where its neighbours leave it no choice."""
        node = self.nodes[number]
        if not self._drop(number, _supported(node)):
            return
        if len(node.cost) == 1:
            self._flatten(node)
            self._fix(number)
        else:
            self._follow(number)

    def _visit(self, number: int) -> None:
        node = self.nodes[number]
        if not self._drop(number, _supported(node)) or not self._drop(number, ~_dominated(node)):
            return
        self._flatten(node)
        if len(node.cost) == 1:
            self._fix(number)
        elif self._follow(number) or node.pieces:
            return
        elif len(node.edges) == 0:
            self._drop(number, np.arange(len(node.cost)) == int(node.cost.argmin()))
            self._fix(number)
        elif len(node.edges) == 1:
            self._fold(number)
        elif len(node.edges) == 2:
            self._bridge(number)

    def _drop(self, number: int, stays: Flags) -> bool:
        """Keep the strategies marked; False where none is left."""
        node = self.nodes[number]
        if stays.all():
            return True
        if not stays.any():
            self.infeasible = True
            return False
        node.keep, node.cost = node.keep[stays], node.cost[stays]
        node.pieces = {span: usage[stays] for span, usage in node.pieces.items()}
        for other, table in node.edges.items():
            node.edges[other] = table[stays]
            self.nodes[other].edges[number] = node.edges[other].T
            self._queue.add(other)
        return True

    def _flatten(self, node: Node) -> None:
        """Memory that every strategy takes is taken off the capacity."""
        if not node.pieces:
            return
        usages = node.usages()
        least = usages.min(axis=1)
        usages -= least[:, None]
        varies = [bool(row.any()) for row in usages]
        for (low, high), amount in zip(node.pieces, least.tolist(), strict=True):
            if amount:
                self.capacity[low:high] -= amount
        spans = zip(node.pieces, usages, varies, strict=True)
        node.pieces = {span: usage for span, usage, some in spans if some}

    def _fix(self, number: int) -> None:
        """A node with one strategy becomes costs of its neighbours."""
        node = self.nodes[number]
        self.constant += float(node.cost[0])
        for other, table in node.edges.items():
            self._charge(other, table[0])
        self._remove(number, (), node.keep[0])

    def _charge(self, other: int, extra: Floats) -> None:
        self.nodes[other].cost = self.nodes[other].cost + extra
        self._queue.add(other)

    def _remove(self, number: int, others: tuple[int, ...], pick: Ints) -> None:
        """Forget a node; `pick` [original strategies of others...]."""
        self._gone.append(Gone(node=number, others=others, pick=np.asarray(pick)))
        for other in self.nodes.pop(number).edges:
            del self.nodes[other].edges[number]
            self._queue.add(other)

    def _wide(self, others: tuple[int, ...], pick: Ints) -> Ints:
        """A table over the strategies left of `others`, over their original ones."""
        for axis, other in enumerate(others):
            keep = self.nodes[other].keep
            shape = list(pick.shape)
            shape[axis] = len(self._original.costs[other])
            wide = np.zeros(shape, dtype=np.int64)
            wide[(slice(None),) * axis + (keep,)] = pick
            pick = wide
        return pick

    def _follow(self, number: int) -> bool:
        """Merge a node into a neighbour whose strategy leaves it no choice.

        Where each leaves the other none, the one with more neighbours stays.
        """
        node = self.nodes[number]
        for other, table in node.edges.items():
            if len(node.cost) > table.shape[1]:
                continue
            allowed = np.isfinite(table)
            if (allowed.sum(axis=0) > 1).any():
                continue
            larger = len(node.edges) > len(self.nodes[other].edges)
            if larger and len(node.cost) == table.shape[1]:
                self._merge(other, number, allowed.argmax(axis=1))
            else:
                self._merge(number, other, allowed.argmax(axis=0))
            return True
        return False

    def _merge(self, number: int, other: int, pick: Ints) -> None:
        node, host = self.nodes[number], self.nodes[other]
        table = node.edges[other]
        extra = node.cost[pick] + table[pick, np.arange(len(pick))]
        for span, usage in node.pieces.items():
            host.add(span, usage[pick])
        moved = [(third, cells[pick]) for third, cells in node.edges.items() if third != other]
        self._remove(number, (other,), self._wide((other,), node.keep[pick]))
        self._charge(other, extra)
        for third, cells in moved:
            self._connect(other, third, cells)

    def _connect(self, a: int, b: int, table: Floats) -> None:
        known = self.nodes[a].edges.get(b)
        total = table if known is None else known + table
        self.nodes[a].edges[b] = total
        self.nodes[b].edges[a] = total.T
        self._queue.add(a)
        self._queue.add(b)

    def _fold(self, number: int) -> None:
        node = self.nodes[number]
        ((other, table),) = node.edges.items()
        total = node.cost[:, None] + table
        pick = node.keep[total.argmin(axis=0)]
        self._remove(number, (other,), self._wide((other,), pick))
        self._charge(other, total.min(axis=0))

    def _bridge(self, number: int) -> None:
        node = self.nodes[number]
        (a, left), (b, right) = node.edges.items()
        cells = left.shape[1] * right.shape[1]
        if cells * len(node.cost) > MAX_WORK or (
            cells > MAX_CELLS and b not in self.nodes[a].edges
        ):
            return
        total = (node.cost[:, None] + left)[:, :, None] + right[:, None, :]
        pick = node.keep[total.argmin(axis=0)]
        self._remove(number, (a, b), self._wide((a, b), pick))
        self._connect(a, b, total.min(axis=0))

    def _start_times(self) -> None:
        """Number the times at which something begins; nothing else can be a peak."""
        limit = self._original.limit
        lows = sorted({low for node in self.nodes.values() for low, _ in node.pieces})
        times = np.array(lows if np.isfinite(limit) else [], dtype=np.int64)
        self._renumber(times)
        self.capacity = np.full(len(times), limit)
        for node in self.nodes.values():
            self._flatten(node)

    def _renumber(self, times: Ints) -> None:
        """Pieces count from `times` (numbers of now), which alone stay."""
        for number, node in self.nodes.items():
            before, node.pieces = node.pieces, {}
            for span, usage in before.items():
                low, high = np.searchsorted(times, span).tolist()
                if low < high:
                    node.add((low, high), usage)
            if len(node.pieces) < len(before):
                self._queue.add(number)

    def _trim_times(self) -> None:
        """Drop the times that can never be too full, and those that another time implies."""
        count = len(self.capacity)
        change, starts, ends = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
        for node in self.nodes.values():
            most = node.usages().max(axis=1, initial=0.0).tolist()
            for (low, high), usage in zip(node.pieces, most, strict=True):
                change[low] += usage
                change[high] -= usage
                starts[low] += 1
                ends[high] += 1
        full = np.cumsum(change)[:count]
        stays = _lasting(full > self.capacity * (1 + 1e-12), starts, ends, self.capacity)
        if len(stays) < count:
            self._renumber(stays)
            self.capacity = self.capacity[stays]


def _lasting(tight: Flags, starts: Floats, ends: Floats, capacity: Floats) -> Ints:
    """Tight times that no neighbour implies: a time within another one is less full than it."""
    stack: list[tuple[int, float, float]] = []
    begun = ended = 0.0
    for time in range(len(capacity)):
        begun += starts[time]
        ended += ends[time]
        if not tight[time]:
            continue
        implied = False
        while stack:
            last, first_begun, first_ended = stack[-1]
            if ended == first_ended and capacity[time] <= capacity[last]:
                stack.pop()
            elif begun == first_begun and capacity[last] <= capacity[time]:
                implied = True
                break
            else:
                break
        if not implied:
            stack.append((time, begun, ended))
    return np.array([time for time, _, _ in stack], dtype=np.int64)


def _nodes(instance: Instance) -> dict[int, Node]:
    nodes = {
        number: Node(
            keep=np.arange(len(cost)),
            cost=cost,
            pieces={(piece.low, piece.high): piece.usage for piece in pieces},
        )
        for number, (cost, pieces) in enumerate(zip(instance.costs, instance.pieces, strict=True))
    }
    for (a, b), table in zip(instance.edges, instance.tables, strict=True):
        known = nodes[a].edges.get(b)
        total = table if known is None else known + table
        nodes[a].edges[b] = total
        nodes[b].edges[a] = total.T
    return nodes


def _supported(node: Node) -> Flags:
    """Strategies that are allowed and have an allowed partner at every neighbour."""
    stays = np.isfinite(node.cost)
    for table in node.edges.values():
        stays &= np.isfinite(table).any(axis=1)
    return stays


def _dominated(node: Node) -> Flags:
    """Strategies that another one replaces at no cost, whatever the neighbours choose."""
    count = len(node.cost)
    loss = node.cost[None, :] - node.cost[:, None]
    for usage in node.usages():
        loss[usage[None, :] > usage[:, None]] = np.inf
    for table in node.edges.values():
        loss = loss + _worst_loss(table)
    gone = np.zeros(count, dtype=bool)
    worse = loss <= 0
    np.fill_diagonal(worse, val=False)
    for strategy in np.flatnonzero(worse.any(axis=1)):
        gone[strategy] = bool((worse[strategy] & ~gone).any())
    return gone


def _worst_loss(table: Floats) -> Floats:
    """[s, r]: the most that replacing strategy s by r can cost on this edge."""
    with np.errstate(invalid="ignore"):
        change = table[None, :, :] - table[:, None, :]
    change[np.isnan(change)] = -np.inf
    return change.max(axis=2)
