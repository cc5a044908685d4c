"""Disjoint sets, plain and with sides."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.compiled import entry, inner
from analysis.program import Ints


def components(count: int, pairs: Ints) -> Ints:
    """The component number (0, 1, ...) of each of `count` items joined by `pairs` [n, 2]."""
    parent = np.arange(count, dtype=np.int64)
    _join(parent, np.ascontiguousarray(pairs, dtype=np.int64))
    return np.unique(parent, return_inverse=True)[1].astype(np.int64)


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


class SidedSets:
    """Disjoint sets whose items each have a side, 0 or 1, relative to their set's first item.

    `join` refuses a join that would put an item on both sides.
    """

    def __init__(self, items: Iterable[int]) -> None:
        self._parent = {item: item for item in items}
        self._flip = dict.fromkeys(self._parent, 0)

    def find(self, item: int) -> tuple[int, int]:
        """The representative of the set of `item`, and the side of `item` relative to it."""
        side = 0
        while self._parent[item] != item:
            side ^= self._flip[item]
            item = self._parent[item]
        return item, side

    def join(self, left: int, right: int, *, opposite: bool) -> bool:
        """Put two items on equal or opposite sides of one set; False where that contradicts."""
        (a, side_a), (b, side_b) = self.find(left), self.find(right)
        flip = side_a ^ side_b ^ int(opposite)
        if a == b:
            return flip == 0
        low, high = min(a, b), max(a, b)
        self._parent[high] = low
        self._flip[high] = flip
        return True
