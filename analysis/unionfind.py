"""Disjoint sets, plain and with sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints

Bools = NDArray[np.bool_]


def components(count: int, pairs: Ints) -> Ints:
    """The component number (0, 1, ...) of each of `count` items joined by `pairs` [n, 2]."""
    parent = np.arange(count, dtype=np.int64)
    _join(parent, np.ascontiguousarray(pairs, dtype=np.int64))
    number: Ints = np.cumsum(parent == np.arange(count)) - 1
    return number[parent]


@entry
def _join(parent: Ints, pairs: Ints) -> None:
    """Point each item at the lowest of those that it is joined with."""
    for row in range(len(pairs)):
        a, b = _root(parent, pairs[row, 0]), _root(parent, pairs[row, 1])
        if a != b:
            parent[max(a, b)] = min(a, b)
    for item in range(len(parent)):
        parent[item] = _root(parent, item)


@inner
def _root(parent: Ints, item: int) -> int:
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


def sided_components(count: int, pairs: Ints, opposite: Bools) -> tuple[Ints, Ints, Bools]:
    """The lowest item of each item's set, the side (0, 1) relative to it, and the joins made.

    In order, each of `pairs` [n, 2] is put on equal or `opposite` sides of one set; a join that
    contradicts those before it is left out.
    """
    parent, flip = np.arange(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    accepted = np.zeros(len(pairs), dtype=np.bool_)
    _join_sided(parent, flip, np.ascontiguousarray(pairs, dtype=np.int64), opposite, accepted)
    return parent, flip, accepted


@entry
def _join_sided(parent: Ints, flip: Ints, pairs: Ints, opposite: Bools, accepted: Bools) -> None:
    for row in range(len(pairs)):
        a, b = _sided_root(parent, flip, pairs[row, 0]), _sided_root(parent, flip, pairs[row, 1])
        turn = flip[pairs[row, 0]] ^ flip[pairs[row, 1]] ^ int(opposite[row])
        if a != b:
            low, high = min(a, b), max(a, b)
            parent[high], flip[high] = low, turn
        accepted[row] = a != b or turn == 0
    for item in range(len(parent)):
        _sided_root(parent, flip, item)


@inner
def _sided_root(parent: Ints, flip: Ints, item: int) -> int:
    """The root of an item, which becomes its parent; `flip` is the side relative to that."""
    root, side = item, 0
    while parent[root] != root:
        side ^= flip[root]
        root = parent[root]
    while parent[item] != root and item != root:
        above, rest = parent[item], side ^ flip[item]
        parent[item], flip[item] = root, side
        item, side = above, rest
    return root
