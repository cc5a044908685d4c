"""Which chunk runs each op of a microbatch, forward or backward.

The groups of `n` chunks are in the order of work: forward 0 to n-1, then backward n-1 to 0. An op
never comes before what it reads, so any choice computes the same; a good one reads weights where
they are kept, and what the forward pass left where that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.tree import Block, Node

ANYWHERE = -1
"""The group of what is made of constants alone: each chunk that reads it makes it."""
_BACKWARD = "transpose("


@dataclass(slots=True)
class Groups:
    """The group of every op of a body; `homes` are the chunks of what the body is given."""

    body: Block
    homes: Mapping[Any, int]
    chunks: int
    of_node: dict[Node, int] = field(default_factory=dict)
    of_value: dict[Any, int] = field(default_factory=dict)
    _data: set[Any] = field(default_factory=set)
    """Values that depend on arguments of the body, but on no weight of a layer."""
    _there: dict[Any, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The chunks that have a value of the forward pass: they make it, or read it there."""

    def chunk_of(self, group: int) -> int:
        """The chunk whose forward or backward work a group is."""
        return group if group < self.chunks else 2 * self.chunks - 1 - group

    def is_backward(self, group: int) -> bool:
        """Whether a group is of the backward pass."""
        return group >= self.chunks

    def backward(self, chunk: int) -> int:
        """The group of a chunk's backward work."""
        return 2 * self.chunks - 1 - chunk

    def run(self) -> Groups:
        """Choose the groups, in the order of the ops; then those of ops that nothing tied."""
        arguments = set(self.body.arguments)
        for node in self.body.nodes:
            reads = node.read
            placed = [value for value in reads if value in self.of_value]
            free = [value for value in reads if value in self._data or value in arguments]
            if placed or any(value in self.homes for value in reads):
                self._place(node, self._chosen(node, placed))
            elif free:
                self._data.update(node.results)
            else:
                self.of_node[node] = ANYWHERE
        self._place_rest()
        return self

    def _place(self, node: Node, group: int) -> None:
        self.of_node[node] = group
        self.of_value.update(dict.fromkeys(node.results, group))
        if not self.is_backward(group):
            for value in (*node.results, *node.read):
                self._there[value].add(group)

    def _chosen(self, node: Node, placed: Sequence[Any]) -> int:
        least = max((self.of_value[value] for value in placed), default=0)
        homes = [self.homes[value] for value in node.read if value in self.homes]
        backward = self.is_backward(least) or _BACKWARD in _label(node.op)
        if not backward and all(home >= least for home in homes):
            return max([least, *homes])
        least = max(least, self.chunks)
        return self._behind(least, homes, placed)

    def _behind(self, least: int, homes: Sequence[int], placed: Sequence[Any]) -> int:
        """The first group of the backward pass that has the weights and what was left for it."""
        ahead = [value for value in placed if not self.is_backward(self.of_value[value])]
        some = range(least, 2 * self.chunks)
        for group in some:
            chunk = self.chunk_of(group)
            here = all(chunk in self._there[value] for value in ahead)
            if here and all(home == chunk for home in homes):
                return group
        for group in some:
            if all(home == self.chunk_of(group) for home in homes):
                return group
        return least

    def _place_rest(self) -> None:
        """Ops on data alone run where the first op that reads them does."""
        readers: dict[Any, int] = {}
        for node in reversed(self.body.nodes):
            group = self.of_node.get(node)
            if group is None:
                group = min((readers[value] for value in node.results if value in readers), default=0)
                self._place(node, group)
            if group == ANYWHERE:
                continue
            for value in node.read:
                readers[value] = min(group, readers.get(value, group))


def _label(op: ir.Operation) -> str:
    """The names that JAX gave an op."""
    return str(op.location.name_str) if isinstance(op.location, ir.NameLoc) else ""
