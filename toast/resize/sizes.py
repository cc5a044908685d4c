"""Dimensions that have to share a size, as classes that are joined and split.

A dimension is a product of *leaves*, major first: `[b*s]` is one dimension of the leaves b and s.
Dimensions that an op wants of one size share their leaves, and what is chosen for a leaf holds for
all of them. A leaf that another size must not be given to is *kept*, with the reason.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Node = int
NO_NODE: Node = -1
EMPTY: Node = -2
"""Dimensions of one element and of none have no leaf: their size is never another."""


@dataclass(slots=True)
class Sizes:
    """A forest over nodes; a root is a leaf, or has `parts`, whose product it is."""

    size: list[int] = field(default_factory=list)
    kept: dict[Node, Any] = field(default_factory=dict)
    _parent: list[Node] = field(default_factory=list)
    _parts: dict[Node, tuple[Node, ...]] = field(default_factory=dict)

    def new(self, size: int) -> Node:
        """A node of its own; none for a size of at most one."""
        if size <= 1:
            return NO_NODE if size == 1 else EMPTY
        self.size.append(size)
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def copy(self) -> Sizes:
        """The same nodes, to go on with without changing these."""
        return Sizes(
            size=self.size.copy(),
            kept=self.kept.copy(),
            _parent=self._parent.copy(),
            _parts=self._parts.copy(),
        )

    def leaves(self, node: Node) -> list[Node]:
        """The leaves of a node, major first."""
        if node < 0:
            return []
        root = self._root(node)
        if root not in self._parts:
            return [root]
        return [leaf for part in self._parts[root] for leaf in self.leaves(part)]

    def read(self, node: Node) -> int:
        """The size of a node as the program has it."""
        return self.size[node] if node >= 0 else int(node == NO_NODE)

    def of(self, node: Node, sizes: Callable[[Node], int]) -> int:
        """The size of a node by those of leaves."""
        return math.prod(sizes(leaf) for leaf in self.leaves(node)) * (node != EMPTY)

    def join(self, some: Iterable[Node], others: Iterable[Node], why: Any) -> None:
        """Give two lists of nodes of one product, in order of their elements, the same leaves.

        Leaves are split where they begin and end together. Those whose ends do not nest (8 x 6
        beside 6 x 8) are kept for the reason `why`.
        """
        some, others = list(some), list(others)
        if len(some) == len(others) == 1 and self._unite_leaves(some[0], others[0]):
            return
        left, right = _Queue(self, some), _Queue(self, others)
        while left and right:
            one, other = left.take(), right.take()
            small, big = sorted((one, other), key=self.size.__getitem__)
            if self.size[small] == self.size[big]:
                self._unite(one, other)
            elif self.size[big] % self.size[small] == 0:
                first, rest = self._split(big, self.size[small])
                self._unite(small, first)
                (left if big == one else right).put_back(rest)
            else:
                self._keep_group(left, right, one, other, why)
        self.keep([*left.rest(), *right.rest()], why)

    def _unite_leaves(self, one: Node, other: Node) -> bool:
        """Unite two nodes where that is all there is to joining them, as it mostly is."""
        if min(one, other) < 0:
            return False
        one, other = self._root(one), self._root(other)
        if one == other:
            return True
        if one in self._parts or other in self._parts or self.size[one] != self.size[other]:
            return False
        self._unite(one, other)
        return True

    def keep(self, nodes: Iterable[Node], why: Any) -> None:
        """Keep nodes as large as they are; the first reason given stays."""
        for node in nodes:
            for leaf in self.leaves(node):
                self.kept.setdefault(leaf, why)

    def _keep_group(self, left: _Queue, right: _Queue, one: Node, other: Node, why: Any) -> None:
        """Keep what comes until both sides have as many elements."""
        group = [one, other]
        sizes = [self.size[one], self.size[other]]
        while sizes[0] != sizes[1]:
            behind = int(sizes[1] < sizes[0])
            queue = (left, right)[behind]
            if not queue:
                break
            group.append(queue.take())
            sizes[behind] *= self.size[group[-1]]
        self.keep(group, why)

    def _root(self, node: Node) -> Node:
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def _unite(self, one: Node, other: Node) -> None:
        one, other = self._root(one), self._root(other)
        if one == other:
            return
        self._parent[other] = one
        if other in self.kept:
            self.kept.setdefault(one, self.kept.pop(other))

    def _split(self, leaf: Node, major: int) -> tuple[Node, Node]:
        parts = self.new(major), self.new(self.size[leaf] // major)
        self._parts[leaf] = parts
        if leaf in self.kept:
            why = self.kept.pop(leaf)
            self.kept |= dict.fromkeys(parts, why)
        return parts


class _Queue:
    """Nodes that are taken leaf by leaf; one may be split while it waits."""

    def __init__(self, sizes: Sizes, nodes: Iterable[Node]) -> None:
        self._sizes = sizes
        self._waiting: deque[Node] = deque(node for node in nodes if node >= 0)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Node:
        """The next leaf."""
        first, *rest = self._sizes.leaves(self._waiting.popleft())
        self._waiting.extendleft(reversed(rest))
        return first

    def put_back(self, node: Node) -> None:
        """Let a node be the next."""
        self._waiting.appendleft(node)

    def rest(self) -> Sequence[Node]:
        """What nobody took."""
        return tuple(self._waiting)
