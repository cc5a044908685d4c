"""Messages between the nodes of an instance: sequential tree-reweighted message passing (TRW-S).

A node hears from each neighbour what that neighbour loses by each of its strategies. Whatever the
messages are, what `sweep` returns is below what every choice costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record

if TYPE_CHECKING:
    from toast.search.pairwise.compact import Compact

NOTHING = 1e300
"""Above every cost."""


@record
class Mailbox(NamedTuple):
    """What the nodes have heard.

    `heard[first[k] + s]`: what the neighbour across link k says of own strategy s. `back[k]` is the
    link k seen from the other side. `unary` [strategies] is their cost with the price of memory.
    `own`, `share` and `told` are room for the strategies of one node. The edges are
    to be `mirrored` (`compact.py`), so that what a node tells is read in order.
    """

    first: Ints
    back: Ints
    heard: Floats
    unary: Floats
    own: Floats
    share: Floats
    told: Floats


@inner
def _gather(c: Compact, m: Mailbox, node: int) -> None:
    """Put the cost of each strategy, with all that was heard of it, into `own`."""
    start, count = c.start[node], c.start[node + 1] - c.start[node]
    own, heard, unary = m.own, m.heard, m.unary
    for s in range(count):
        own[s] = unary[start + s]
    for k in range(c.link_start[node], c.link_start[node + 1]):
        first = m.first[k]
        for s in range(count):
            own[s] += heard[first + s]


@inner
def _tell(c: Compact, m: Mailbox, k: int, count: int) -> float:
    """Tell the neighbour across link k what `share` means for its strategies.

    The least of it is made 0 and returned.
    """
    other = c.link_node[k]
    width = c.start[other + 1] - c.start[other]
    to, row = m.first[m.back[k]], c.link_cell[k]
    share, told, heard, cell = m.share, m.told, m.heard, c.cell
    for t in range(width):
        told[t] = NOTHING
    for s in range(count):
        base = share[s]
        for t in range(width):
            value = base + cell[row + t]
            told[t] = value if value < told[t] else told[t]
        row += width
    least = NOTHING
    for t in range(width):
        least = min(least, told[t])
    for t in range(width):
        heard[to + t] = told[t] - least
    return least


@entry
def sweep(c: Compact, m: Mailbox, forward: int) -> float:
    """Every node in order tells the later ones; or, not `forward`, in reverse the earlier ones.

    Returns a bound: no choice costs less, memory at its price. What a node tells is at most its own
    cost above its least, shared out among those it tells.
    """
    nodes, total = len(c.start) - 1, 0.0
    for step in range(nodes):
        node = step if forward else nodes - 1 - step
        count = c.start[node + 1] - c.start[node]
        _gather(c, m, node)
        least = NOTHING
        for s in range(count):
            least = min(least, m.own[s])
        for s in range(count):
            m.own[s] -= least
        total += least
        later = 0
        for k in range(c.link_start[node], c.link_start[node + 1]):
            later += c.link_node[k] > node
        links = c.link_start[node + 1] - c.link_start[node]
        part = 1.0 / max(later, links - later, 1)
        for k in range(c.link_start[node], c.link_start[node + 1]):
            if (c.link_node[k] > node) == (forward != 0):
                first = m.first[k]
                for s in range(count):
                    m.share[s] = part * m.own[s] - m.heard[first + s]
                total += _tell(c, m, k, count)
    return total


@entry
def decide(c: Compact, m: Mailbox, choice: Ints) -> None:
    """In order each node takes its best strategy: beside what is taken, and by what it heard."""
    for node in range(len(c.start) - 1):
        start, count = c.start[node], c.start[node + 1] - c.start[node]
        for s in range(count):
            m.own[s] = m.unary[start + s]
        for k in range(c.link_start[node], c.link_start[node + 1]):
            other = c.link_node[k]
            if other > node:
                first = m.first[k]
                for s in range(count):
                    m.own[s] += m.heard[first + s]
            else:
                first = c.link_cell[m.back[k]] + choice[other] * count
                for s in range(count):
                    m.own[s] += c.cell[first + s]
        best = 0
        for s in range(count):
            if m.own[s] < m.own[best]:
                best = s
        choice[node] = best
