"""What a choice costs and keeps in memory, and what memory costs at prices of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import entry
from toast.analysis.program import Floats, Ints

if TYPE_CHECKING:
    from toast.search.pairwise.compact import Compact


@entry
def measure(c: Compact, choice: Ints, memory: Floats) -> float:
    """The cost of a choice [nodes], memory aside, which is put into `memory` [times, 1]."""
    memory[:] = 0.0
    cost = 0.0
    for node in range(len(c.start) - 1):
        own = choice[node]
        cost += c.cost[c.start[node] + own]
        for k in range(c.link_start[node], c.link_start[node + 1]):
            other = c.link_node[k]
            if other > node:
                cost += c.cell[
                    c.link_cell[k] + own * c.link_own[k] + choice[other] * c.link_other[k]
                ]
        for piece in range(c.piece_start[node], c.piece_start[node + 1]):
            usage = c.usage[c.piece_usage[piece] + own]
            memory[c.piece_low[piece]] += usage
            memory[c.piece_high[piece]] -= usage
    for time in range(1, len(memory)):
        memory[time] += memory[time - 1]
    return cost


@entry
def price_memory(c: Compact, until: Floats, factor: Floats, unary: Floats) -> None:
    """Put the costs of all strategies into `unary`, with their memory at its price.

    `until` [times, 1] is the price of memory summed over all times before; a node pays it times its
    `factor`.
    """
    for node in range(len(c.start) - 1):
        start, count = c.start[node], c.start[node + 1] - c.start[node]
        for s in range(count):
            unary[start + s] = c.cost[start + s]
        for piece in range(c.piece_start[node], c.piece_start[node + 1]):
            rate = (until[c.piece_high[piece]] - until[c.piece_low[piece]]) * factor[node]
            if rate != 0.0:
                first = c.piece_usage[piece]
                for s in range(count):
                    unary[start + s] += rate * c.usage[first + s]
