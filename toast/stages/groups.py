"""Which chunk runs each op of a microbatch, forward or backward.

The groups of `n` chunks are in the order of work: forward 0 to n-1, then backward n-1 to 0. An op
never comes before what it reads, so any choice computes the same; a good one reads weights where
they are kept, and what the forward pass left where that is.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.tree import Block, OpNode
from toast.stages.build import bytes_of

ANYWHERE = -1
"""The group of what is made of constants alone: each chunk that reads it makes it."""
_BACKWARD = "transpose("


@dataclass(slots=True)
class OpGroups:
    """The group of every op of a body; `homes` are the chunks of what the body is given."""

    body: Block
    homes: Mapping[Any, int]
    chunks: int
    of_node: dict[OpNode, int] = field(default_factory=dict)
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

    def run(self) -> OpGroups:
        """Choose the groups: of the forward pass, then of the backward pass, then of the rest."""
        self._forward()
        for chunk in range(self.chunks - 1):
            self._narrow(chunk)
        for node, group in self.of_node.items():
            if group != ANYWHERE:
                self._note_there(node, group)
        self._backward()
        self._place_rest()
        return self

    def _forward(self) -> None:
        """Ops that a weight of a layer ties to a chunk, and ops on what these make.

        Of what is left, ops on constants alone are found here too.
        """
        arguments, backward = set(self.body.arguments), set[Any]()
        for node in self.body.nodes:
            placed = [value for value in node.read if value in self.of_value]
            homes = [self.homes[value] for value in node.read if value in self.homes]
            least = max((self.of_value[value] for value in placed), default=0)
            if not backward.isdisjoint(node.read) or self._turns(node, homes, least):
                backward.update(node.results)
            elif placed or homes:
                self._place(node, max([least, *homes]))
            elif any(value in self._data or value in arguments for value in node.read):
                self._data.update(node.results)
            else:
                self.of_node[node] = ANYWHERE

    def _turns(self, node: OpNode, homes: Sequence[int], least: int) -> bool:
        """Whether the backward pass begins with an op, or an earlier chunk's weights are read."""
        return _BACKWARD in _label(node.op) or any(home < least for home in homes)

    def _narrow(self, chunk: int) -> None:
        """Let a chunk end where it hands on the fewest bytes.

        What follows its last op that reads its weights may as well be of the next chunk.
        """
        nodes = [node for node, group in self.of_node.items() if group == chunk]
        tied = [any(self.homes.get(value) == chunk for value in node.read) for node in nodes]
        first = max((place + 1 for place, own in enumerate(tied) if own), default=0)
        readers = self._last_readers(nodes)
        handed = _handed_on(nodes, readers)
        end = min(range(first, len(nodes) + 1), key=lambda place: (handed[place], -place))
        for node in nodes[end:]:
            self._place(node, chunk + 1)

    def _last_readers(self, nodes: Sequence[OpNode]) -> dict[Any, int]:
        """By value that some ops make, the place of the last forward op that reads it."""
        places = {node: place for place, node in enumerate(nodes)}
        made = {value for node in nodes for value in node.results}
        found: dict[Any, int] = {}
        for node, group in self.of_node.items():
            if group != ANYWHERE:
                for value in node.read:
                    if value in made:
                        found[value] = max(found.get(value, 0), places.get(node, len(nodes)))
        return found

    def _backward(self) -> None:
        """Ops of the backward pass where their weights and what the forward pass left are."""
        for node in self.body.nodes:
            if node in self.of_node:
                continue
            reads = node.read
            placed = [value for value in reads if value in self.of_value]
            homes = [self.homes[value] for value in reads if value in self.homes]
            if placed or homes:
                least = max((self.of_value[value] for value in placed), default=0)
                self._place(node, self._behind(max(least, self.chunks), homes, placed))

    def _place(self, node: OpNode, group: int) -> None:
        self.of_node[node] = group
        self.of_value.update(dict.fromkeys(node.results, group))

    def _note_there(self, node: OpNode, group: int) -> None:
        for value in (*node.results, *node.read):
            self._there[value].add(group)

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
                group = min(
                    (readers[value] for value in node.results if value in readers), default=0
                )
                self._place(node, group)
            if group == ANYWHERE:
                continue
            for value in node.read:
                readers[value] = min(group, readers.get(value, group))


def _handed_on(nodes: Sequence[OpNode], readers: Mapping[Any, int]) -> list[int]:
    """By place between ops the bytes that ops before it make for ops behind it."""
    change = [0] * (len(nodes) + 2)
    for place, node in enumerate(nodes):
        for value in node.results:
            last = readers.get(value, place)
            if last > place:
                change[place + 1] += bytes_of(value)
                change[last + 1] -= bytes_of(value)
    return list(itertools.accumulate(change))


def _label(op: ir.Operation) -> str:
    """The names that JAX gave an op."""
    return str(op.location.name_str) if isinstance(op.location, ir.NameLoc) else ""
