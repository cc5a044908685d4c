"""Beam search over the nodes of an instance, in order (MetaDist algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.compact import Compact

WIDTH = 64


def beam(
    c: Compact,
    price: float,
    *,
    width: int = WIDTH,
    stopped: Callable[[], bool] = lambda: False,
) -> Ints:
    """The cheapest choice [nodes] that a beam of `width` partial choices ends with.

    A partial choice costs its nodes, the edges among them, and `price` (finite) per unit of memory
    that it already has above capacity. A forbidden pair costs more than all that is allowed.
    Where it is stopped, the nodes that are left take their own cheapest strategies.
    """
    wall = _wall(c)
    cell, cost = (np.where(np.isfinite(values), values, wall) for values in (c.cell, c.cost))
    choices = np.zeros((1, c.nodes), dtype=np.int64)
    totals, memory = np.zeros(1), np.zeros((1, len(c.capacity)))
    for node in range(c.nodes):
        own = cost[c.start[node] : c.start[node + 1]]
        if stopped():
            choices[:, node] = own.argmin()
            continue
        grown = totals[:, None] + own + _edges(c, cell, choices, node)
        over = _over(c, memory, node)
        ranked = (grown + price * over).ravel()
        best = np.argsort(ranked, kind="stable")[:width]
        parent, pick = best // len(own), best % len(own)
        choices, totals, memory = choices[parent], grown.ravel()[best], memory[parent]
        choices[:, node] = pick
        for piece in range(int(c.piece_start[node]), int(c.piece_start[node + 1])):
            usage = c.usage[c.piece_usage[piece] + pick]
            memory[:, c.piece_low[piece] : c.piece_high[piece]] += usage[:, None]
    return choices[0]


def _wall(c: Compact) -> float:
    """More than any choice of allowed costs."""
    return 1.0 + sum(
        float(values[np.isfinite(values)].max(initial=0.0)) for values in (c.cost, c.cell)
    ) * (1 + c.nodes + len(c.link_node))


def _edges(c: Compact, cell: Floats, choices: Ints, node: int) -> Floats:
    """[candidates, strategies]: the edges to the nodes that have chosen."""
    count = c.strategies(node)
    total = np.zeros((len(choices), count))
    for k in range(int(c.link_start[node]), int(c.link_start[node + 1])):
        other = int(c.link_node[k])
        if other < node:
            first = c.link_cell[k] + choices[:, other] * c.link_other[k]
            total += cell[first[:, None] + np.arange(count) * c.link_own[k]]
    return total


def _over(c: Compact, memory: Floats, node: int) -> Floats:
    """[candidates, strategies]: the most memory above capacity at any time."""
    over = np.maximum(memory - c.capacity, 0.0).max(axis=1, initial=0.0)
    found = np.repeat(over[:, None], c.strategies(node), axis=1)
    for piece in range(int(c.piece_start[node]), int(c.piece_start[node + 1])):
        low, high = int(c.piece_low[piece]), int(c.piece_high[piece])
        usage = c.usage[c.piece_usage[piece] :][: found.shape[1]]
        room = (memory[:, low:high] - c.capacity[low:high]).max(axis=1)
        found = np.maximum(found, room[:, None] + usage)
    return found
