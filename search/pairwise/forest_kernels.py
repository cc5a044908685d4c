"""Improves a choice on a forest at once: nodes among which there is no cycle, the others fixed.

`grow` picks a forest, `propose` finds its best choice exactly at given prices of memory, and
`accept` takes over each connected part of the changes that pays and fits.
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
class Forest(NamedTuple):
    """A choice, its memory, and room to work.

    `fine` is what a unit above capacity costs at one time; `unary` [strategies] costs with their
    memory. `root` [nodes] finds the tree that a node is in (-1: none). `order` lists the nodes of
    the forest, parents first; `above` [nodes] is the parent of each (-1: none) and `link` the
    parent's link to it. `part` numbers the connected changes. `back[k]` is link k from its other
    side. The edges are to be `mirrored` (`compact.py`), so that they are read in order.
    """

    back: Ints
    choice: Ints
    proposed: Ints
    memory: Floats
    fine: Floats
    unary: Floats
    total: Floats
    told: Floats
    root: Ints
    seen: Ints
    order: Ints
    above: Ints
    link: Ints
    part: Ints
    listed: Ints


@inner
def _root(f: Forest, node: int) -> int:
    while f.root[node] != node:
        f.root[node] = f.root[f.root[node]]
        node = f.root[node]
    return node


@entry
def grow(c: Compact, f: Forest, wanted: Ints) -> int:
    """Take the `wanted` nodes in turn where they close no cycle; how many were taken."""
    nodes = len(c.start) - 1
    for node in range(nodes):
        f.root[node] = f.seen[node] = f.above[node] = -1
    for node in wanted:
        closes = False
        for k in range(c.link_start[node], c.link_start[node + 1]):
            other = c.link_node[k]
            if f.root[other] >= 0:
                tree = _root(f, other)
                closes = closes or f.seen[tree] == node
                f.seen[tree] = node
        if not closes:
            f.root[node] = node
            for k in range(c.link_start[node], c.link_start[node + 1]):
                if f.root[c.link_node[k]] >= 0:
                    f.root[_root(f, c.link_node[k])] = node
    return _put_in_order(c, f, wanted)


@inner
def _put_in_order(c: Compact, f: Forest, wanted: Ints) -> int:
    for node in range(len(c.start) - 1):
        f.seen[node] = 0
    taken = done = 0
    for first in wanted:
        if f.root[first] < 0 or f.seen[first]:
            continue
        f.order[taken], f.seen[first] = first, 1
        taken += 1
        while done < taken:
            node = f.order[done]
            done += 1
            for k in range(c.link_start[node], c.link_start[node + 1]):
                other = c.link_node[k]
                if f.root[other] >= 0 and not f.seen[other]:
                    f.order[taken], f.seen[other] = other, 1
                    f.above[other], f.link[other] = node, k
                    taken += 1
    return taken


@entry
def propose(c: Compact, f: Forest, taken: int) -> int:
    """Put the best choice of the forest into `proposed`; how many nodes change."""
    for place in range(taken):
        _alone(c, f, f.order[place])
    for place in range(taken - 1, -1, -1):
        node = f.order[place]
        if f.above[node] >= 0:
            _tell_parent(c, f, node)
    changed = 0
    for place in range(taken):
        changed += _decide(c, f, f.order[place])
    return changed


@inner
def _alone(c: Compact, f: Forest, node: int) -> None:
    """The cost of each strategy beside the nodes that are fixed."""
    start, count = c.start[node], c.start[node + 1] - c.start[node]
    for s in range(count):
        f.total[start + s] = f.unary[start + s]
    for k in range(c.link_start[node], c.link_start[node + 1]):
        other = c.link_node[k]
        if f.root[other] < 0:
            row = c.link_cell[f.back[k]] + f.choice[other] * count
            for s in range(count):
                f.total[start + s] += c.cell[row + s]


@inner
def _tell_parent(c: Compact, f: Forest, node: int) -> None:
    """Add to each strategy of the parent what the node costs at best beside it."""
    above, row = f.above[node], c.link_cell[f.back[f.link[node]]]
    start, count = c.start[node], c.start[node + 1] - c.start[node]
    first, width = c.start[above], c.start[above + 1] - c.start[above]
    total, told, cell = f.total, f.told, c.cell
    for t in range(width):
        told[t] = NOTHING
    for s in range(count):
        base = total[start + s]
        for t in range(width):
            value = base + cell[row + t]
            told[t] = value if value < told[t] else told[t]
        row += width
    for t in range(width):
        total[first + t] += told[t]


@inner
def _decide(c: Compact, f: Forest, node: int) -> int:
    """The best strategy beside the parent's; the old one where none is better."""
    start, count = c.start[node], c.start[node + 1] - c.start[node]
    row = -1
    if f.above[node] >= 0:
        row = c.link_cell[f.link[node]] + f.proposed[f.above[node]] * count
    best, least = f.choice[node], NOTHING
    for turn in range(-1, count):
        s = f.choice[node] if turn < 0 else turn
        value = f.total[start + s] + (c.cell[row + s] if row >= 0 else 0.0)
        if turn < 0:
            least = value
        elif value < least - 1e-9 * abs(least):
            best, least = s, value
    f.proposed[node] = best
    return int(best != f.choice[node])


@entry
def accept(c: Compact, f: Forest, taken: int) -> float:
    """Take over the connected changes that pay with memory at its price; what the cost changes.

    What is above capacity costs `fine` besides.
    """
    parts = 0
    for place in range(taken):
        node = f.order[place]
        f.part[node] = -1
        if f.proposed[node] != f.choice[node]:
            above = f.above[node]
            if above >= 0 and f.part[above] >= 0:
                f.part[node] = f.part[above]
            else:
                f.part[node] = parts
                f.seen[parts] = 0
                parts += 1
            f.seen[f.part[node]] += 1
    end = 0
    for part in range(parts):
        end += f.seen[part]
        f.seen[part] = end
    for place in range(taken - 1, -1, -1):
        part = f.part[f.order[place]]
        if part >= 0:
            f.seen[part] -= 1
            f.listed[f.seen[part]] = f.order[place]
    gained = 0.0
    for part in range(parts):
        first = f.seen[part]
        last = f.seen[part + 1] if part + 1 < parts else end
        gained += _try_part(c, f, first, last)
    return gained


@inner
def _try_part(c: Compact, f: Forest, first: int, last: int) -> float:
    """Take over one connected change where it pays."""
    cost = priced = 0.0
    for place in range(first, last):
        node = f.listed[place]
        old, new = f.choice[node], f.proposed[node]
        cost += c.cost[c.start[node] + new] - c.cost[c.start[node] + old]
        priced += f.unary[c.start[node] + new] - f.unary[c.start[node] + old]
        for k in range(c.link_start[node], c.link_start[node + 1]):
            other = c.link_node[k]
            row, step = c.link_cell[k], c.link_own[k]
            there, across = f.choice[other], c.link_other[k]
            change = -c.cell[row + old * step + there * across]
            inside = f.root[other] >= 0 and f.part[other] == f.part[node]
            if inside:
                there = f.proposed[other]
            change += c.cell[row + new * step + there * across]
            if not inside or other > node:
                cost += change
                priced += change
    fined = 0.0
    for place in range(first, last):
        node = f.listed[place]
        fined += _move(c, f, node, f.choice[node], f.proposed[node])
    if priced + fined < 0.0:
        for place in range(first, last):
            f.choice[f.listed[place]] = f.proposed[f.listed[place]]
        return cost
    for place in range(first, last):
        node = f.listed[place]
        _move(c, f, node, f.proposed[node], f.choice[node])
    return 0.0


@inner
def _move(c: Compact, f: Forest, node: int, old: int, new: int) -> float:
    """Change the memory of a node; by how much the fines rise."""
    fined = 0.0
    for piece in range(c.piece_start[node], c.piece_start[node + 1]):
        first = c.piece_usage[piece]
        change = c.usage[first + new] - c.usage[first + old]
        if change != 0.0:
            for time in range(c.piece_low[piece], c.piece_high[piece]):
                before = f.memory[time] - c.capacity[time]
                f.memory[time] += change
                after = before + change
                fined += f.fine[time] * (max(after, 0.0) - max(before, 0.0))
    return fined
