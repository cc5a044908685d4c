"""Improves a choice a window at a time: some nodes are free, the rest is fixed, HiGHS is exact."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.compact import Compact, compact, memory_of, total
from toast.search.pairwise.highs import IntegerProgram
from toast.search.pairwise.instance import Instance, Piece, capped, score
from toast.search.pairwise.reduce import Reduced

CELLS = 40_000
"""Edge cells in one window to begin with, and at least an eighth of it."""
WINDOW_SECONDS = 60.0
LEAST = 0.1
"""With fewer seconds left no window is opened."""
GROW, SHRINK = 1.3, 0.6
"""How the next windows change after one in which nothing is better, or that took too long."""


def improve(
    c: Compact,
    choice: Ints,
    price: float,
    *,
    seconds: float,
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
    report: Callable[[Ints], None] = lambda _: None,
) -> tuple[Ints, bool]:
    """The choice after as many windows as `seconds` allow, and whether none is better.

    `price` (finite) is the cost of a unit of memory above capacity: a choice that does not fit may
    come in, and it is made to fit where that is possible.
    """
    generator = np.random.default_rng(seed)
    end, cells = time.monotonic() + seconds, float(CELLS)
    heat = np.ones(c.nodes)
    while end - time.monotonic() > LEAST and not stopped():
        began = time.monotonic()
        window = _window(c, heat * _paid(c, choice), generator, cells)
        found, proved = _solve(c, choice, window, price, min(end, began + WINDOW_SECONDS), stopped)
        heat[window] *= 0.7
        heat = np.where(found != choice, 1.0, heat) + 0.01
        if (found != choice).any():
            choice = found
            report(choice)
        elif proved:
            cells *= GROW
        if not proved:
            cells = max(cells * SHRINK, CELLS / 8)
        if len(window) == c.nodes and proved:
            return choice, True
    return choice, False


def _paid(c: Compact, choice: Ints) -> Floats:
    """What each node costs with its edges, a hundredth of the mean added so that all may come."""
    node = np.repeat(np.arange(c.nodes), np.diff(c.link_start))
    cells = c.cell[c.link_cell + choice[node] * c.link_own + choice[c.link_node] * c.link_other]
    paid = c.cost[c.start[:-1] + choice] + np.bincount(node, weights=cells, minlength=c.nodes)
    paid = np.where(np.isfinite(paid), paid, 0.0)
    return paid + 0.01 * paid.mean() + 1e-12


def _window(c: Compact, heat: Floats, generator: np.random.Generator, cells: float) -> Ints:
    """Connected nodes around a random one, as many as have `cells` edge cells among them."""
    centre = int(generator.choice(c.nodes, p=heat / heat.sum()))
    taken, front, total = {centre}, [centre], 0.0
    while front:
        node = front.pop(int(generator.integers(len(front))))
        links = range(int(c.link_start[node]), int(c.link_start[node + 1]))
        for k in generator.permutation(list(links)).tolist() if links else ():
            other = int(c.link_node[k])
            if other in taken:
                continue
            total += c.strategies(node) * c.strategies(other)
            if total > cells:
                return np.array(sorted(taken))
            taken.add(other)
            front.append(other)
        if not front and len(taken) < c.nodes:
            rest = np.array(sorted(set(range(c.nodes)) - taken))
            centre = int(generator.choice(rest))
            taken.add(centre)
            front.append(centre)
    return np.array(sorted(taken))


def _solve(
    c: Compact,
    choice: Ints,
    window: Ints,
    price: float,
    end: float,
    stopped: Callable[[], bool],
) -> tuple[Ints, bool]:
    part = _part(c, choice, window, price)
    held_cost = score(part, [*choice[window].tolist(), 0]).cost
    reduced = Reduced(capped(part, held_cost))
    found = choice.copy()
    if reduced.infeasible:
        return found, True
    picks: dict[int, int] = {}
    proved = True
    if reduced.nodes:
        small = compact(reduced)
        held = reduced.lower([*choice[window].tolist(), 0])
        start = np.array([held[node] for node in sorted(held)], dtype=np.int64)
        program = IntegerProgram(small, price, stopped=stopped)
        solved = program.solve(end - time.monotonic(), start=start)
        if solved.choice is None:
            return found, solved.proved
        picks = dict(zip(sorted(reduced.nodes), solved.choice.tolist(), strict=True))
        proved = solved.proved
    found[window] = reduced.lift(picks)[:-1]
    better = total(c, found, price) < total(c, choice, price) - 1e-9
    return (found if better else choice), proved


def _part(c: Compact, choice: Ints, window: Ints, price: float) -> Instance:
    """The window as an instance; its last node is the memory that the fixed nodes take."""
    place = {int(node): number for number, node in enumerate(window)}
    costs: list[Floats] = []
    edges: dict[tuple[int, int], Floats] = {}
    pieces: list[tuple[Piece, ...]] = []
    background = memory_of(c, choice)
    for node in window.tolist():
        costs.append(_cost(c, node, choice, place, edges))
        pieces.append(_pieces(c, node))
        for piece in pieces[-1]:
            background[piece.low : piece.high] -= piece.usage[choice[node]]
    limit = float(c.capacity.max(initial=0.0))
    taken = background + (limit - c.capacity)
    held = (
        Piece(low=time, high=time + 1, usage=np.array([amount]))
        for time, amount in enumerate(taken.tolist())
    )
    return Instance(
        costs=(*costs, np.zeros(1)),
        pieces=(*pieces, tuple(held)),
        edges=tuple(edges),
        tables=tuple(edges.values()),
        limit=limit,
        excess=price,
    )


def _cost(
    c: Compact,
    node: int,
    choice: Ints,
    place: dict[int, int],
    edges: dict[tuple[int, int], Floats],
) -> Floats:
    """What each strategy of `node` costs with the fixed nodes; its edges go to `edges`."""
    count = c.strategies(node)
    cost = c.cost[c.start[node] : c.start[node + 1]].copy()
    for k in range(int(c.link_start[node]), int(c.link_start[node + 1])):
        other = int(c.link_node[k])
        own = c.link_cell[k] + np.arange(count) * c.link_own[k]
        if other not in place:
            cost += c.cell[own + choice[other] * c.link_other[k]]
        elif node < other:
            columns = np.arange(c.strategies(other)) * c.link_other[k]
            edges[place[node], place[other]] = c.cell[own[:, None] + columns]
    return cost


def _pieces(c: Compact, node: int) -> tuple[Piece, ...]:
    count = c.strategies(node)
    return tuple(
        Piece(
            low=int(c.piece_low[piece]),
            high=int(c.piece_high[piece]),
            usage=c.usage[c.piece_usage[piece] :][:count],
        )
        for piece in range(int(c.piece_start[node]), int(c.piece_start[node + 1]))
    )
