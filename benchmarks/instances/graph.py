"""A program as a problem of the contest: a node for each value, as XLA's auto-sharding has them.

- An op that makes its result from one operand, dimension by dimension, *follows* it: its strategy
  is that of the value at the head of the chain, the *leader*. The two are joined by an edge that
  forbids all else. What the follower costs with other values is charged to its leader.
- Any other op leads: its strategies are the ways to split its factors over the mesh.
- An edge between leaders has what it costs to lay out anew all that passes between their groups.
- A value is in memory from its op to its last use, an argument always. Reshapes share the buffer
  of what they reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.instances.layouts import Links
from toast.analysis.program import ARGUMENT, RETURN, TRANSFERS, FactorKind, Floats, Ints, Program

LEADS = frozenset({"stablehlo.dot_general", "stablehlo.convolution", ARGUMENT})
SHARED = frozenset({"stablehlo.reshape", "stablehlo.bitcast_convert", *TRANSFERS}) - {ARGUMENT}
BITS = {"i1": 8, "f64": 64, "i64": 64, "f16": 16, "bf16": 16, "i8": 8, "ui8": 8, "ui64": 64}
COMPUTED = 2.0**-12
"""What one multiplication costs, beside one byte."""


@dataclass(slots=True)
class Node:
    """A value with the layouts that its strategies give it, [strategies, axes]."""

    leader: int
    layouts: Ints
    cost: Floats
    usage: Floats
    low: int
    high: int
    depth: int


class Graph:
    """The nodes, and the tables of the edges between leaders (the lower number first)."""

    def __init__(self, program: Program, links: Links) -> None:
        self._program, self._links = program, links
        self._place: dict[int, int] = {}
        self._cells: dict[tuple[bytes, bytes, float], Floats] = {}
        self.nodes: list[Node] = []
        self.tables: dict[tuple[int, int], Floats] = {}
        for op in range(program.ops):
            kind = program.kind(op)
            if kind in TRANSFERS and kind not in (ARGUMENT, RETURN):
                self._pass_on(op)
            elif kind not in (RETURN, "stablehlo.constant"):
                self._add_op(op, kind)

    @cached_property
    def _last(self) -> Ints:
        """The last op that uses each value, or its own."""
        last = self._program.value_op.copy()
        np.maximum.at(last, self._program.use_value, self._program.use_op)
        return last

    def _pass_on(self, op: int) -> None:
        """Each result of a loop or a branch follows what comes in for it."""
        program = self._program
        for use, value in zip(program.uses_of(op), program.values_of(op), strict=False):
            source = self._place.get(program.sources[use])
            if source is not None and self._counts(value):
                layouts = self.nodes[source].layouts
                self._add_node(value, self.nodes[source].leader, layouts, np.zeros(len(layouts)))

    def _add_op(self, op: int, kind: str) -> None:
        program = self._program
        values = [value for value in program.values_of(op) if self._counts(value)]
        if not values:
            return
        followed = None if kind in LEADS else self._followed(op, values[0])
        first = program.factors_of(op).start
        if followed is None:
            sizes = [self._splittable(factor) for factor in program.factors_of(op)]
            chosen = self._links.layouts(sizes)
            leader, cost = len(self.nodes), np.zeros(len(chosen))
        else:
            source = self._place[program.sources[followed]]
            leader = self.nodes[source].leader
            chosen, cost = self._carried(op, followed, self.nodes[source].layouts)
        cost = cost + self._own_cost(op, kind, values[0], chosen)
        for value in values:
            layouts = _laid(chosen, program.def_names(value) - first)
            self._add_node(value, leader, layouts, cost)
            leader, cost = self.nodes[len(self.nodes) - 1].leader, 0.0 * cost
        self._join(op, followed, leader, chosen)

    def _splittable(self, factor: int) -> int:
        kind = self._program.factor_kind[factor]
        even = kind in (FactorKind.PARALLEL, FactorKind.REDUCTION)
        return int(self._program.factor_size[factor]) if even else 1

    def _followed(self, op: int, value: int) -> int | None:
        """The use whose dimensions are those of the result; the one furthest from arguments."""
        program = self._program
        wanted = set(program.def_names(value).tolist()) - {-1}
        found, depth = None, -1
        for use in program.uses_of(op):
            place = self._place.get(program.sources[use])
            if place is None or not wanted or wanted - set(program.use_names(use).tolist()):
                continue
            if self.nodes[place].depth > depth:
                found, depth = use, self.nodes[place].depth
        return found

    def _carried(self, op: int, use: int, layouts: Ints) -> tuple[Ints, Floats]:
        """Factors split at an op that follows layouts of `use`, and gathering what may not be."""
        program = self._program
        start = program.factors_of(op).start
        names = program.use_names(use)
        factors = np.append(np.where(names >= 0, names - start, -1), -1)
        kept = np.array([self._splittable(f) > 1 for f in program.factors_of(op)] + [False])
        factors = np.where((factors >= 0) & kept[factors], factors, -1)
        chosen: Ints = factors[layouts]
        lost = (layouts >= 0) & (chosen < 0)
        local = self._bytes(program.sources[use]) / self._links.shards(np.where(lost, -1, layouts))
        return chosen, self._links.gather(lost, local)

    def _own_cost(self, op: int, kind: str, value: int, chosen: Ints) -> Floats:
        """Adding up partial sums, strips of neighbours, and the products themselves."""
        program, links = self._program, self._links
        factors = program.factors_of(op)
        kinds = np.append(program.factor_kind[factors.start : factors.stop], -1)[chosen]
        named = np.append(np.isin(factors, program.def_names(value)), False)[chosen]
        result = _laid(chosen, program.def_names(value) - factors.start)
        local = self._bytes(value) / links.shards(result)
        cost = links.reduce((kinds == FactorKind.REDUCTION) & ~named, local)
        if kind in ("stablehlo.dot_general", "stablehlo.convolution"):
            work = float(np.prod(program.factor_size[factors.start : factors.stop]))
            cost = cost + COMPUTED * work / links.shards(chosen)
        return np.rint(cost)

    def _join(self, op: int, followed: int | None, leader: int, chosen: Ints) -> None:
        """Charge what the operands cost that an op does not follow."""
        program = self._program
        start = program.factors_of(op).start
        for use in program.uses_of(op):
            place = self._place.get(program.sources[use])
            if use == followed or place is None:
                continue
            wanted = _laid(chosen, program.use_names(use) - start)
            source = self.nodes[place]
            table = self._change(source.layouts, wanted, self._bytes(program.sources[use]))
            if source.leader == leader:
                self.nodes[leader].cost = self.nodes[leader].cost + np.diagonal(table)
                continue
            pair = (min(source.leader, leader), max(source.leader, leader))
            turned = table if source.leader < leader else table.T
            self.tables[pair] = self.tables.get(pair, 0.0) + turned

    def _change(self, source: Ints, target: Ints, size: float) -> Floats:
        key = (source.tobytes(), target.tobytes(), size)
        if key not in self._cells:
            self._cells[key] = self._links.change(source, target, size)
        return self._cells[key]

    def _add_node(self, value: int, leader: int, layouts: Ints, cost: Floats) -> None:
        op = int(self._program.value_op[value])
        kind = self._program.kind(op)
        depth = 0 if leader == len(self.nodes) else self.nodes[leader].depth
        if kind in ("stablehlo.dot_general", "stablehlo.convolution"):
            uses = self._program.uses_of(op)
            places = [self._place.get(self._program.sources[use]) for use in uses]
            depth = 1 + max((self.nodes[p].depth for p in places if p is not None), default=0)
        low, high = op, int(self._last[value]) + 1
        if kind == ARGUMENT:
            low, high = 0, self._program.ops
        self._place[value] = len(self.nodes)
        usage = np.ceil(self._bytes(value) / self._links.shards(layouts))
        self.nodes.append(
            Node(
                leader=leader,
                layouts=layouts,
                cost=cost,
                usage=usage,
                low=low,
                high=low if kind in SHARED else high,
                depth=depth,
            )
        )

    def _counts(self, value: int) -> bool:
        """Scalars are no nodes."""
        return self._program.elements[value] > 1

    def _bytes(self, value: int) -> float:
        return self._program.elements[value] * BITS.get(self._program.dtype(value), 32) / 8.0


def _laid(chosen: Ints, names: Ints) -> Ints:
    """Layouts of a value whose dimensions have the factors `names`, from those of its op."""
    found = np.full_like(chosen, -1)
    for dimension, name in enumerate(names.tolist()):
        if name >= 0:
            found[chosen == name] = dimension
    return found


def least_peak(nodes: Sequence[Node]) -> float:
    """The peak where every value takes the least memory that it may."""
    change = np.zeros(max(node.high for node in nodes) + 1)
    for node in nodes:
        change[node.low] += node.usage.min()
        change[node.high] -= node.usage.min()
    return float(np.cumsum(change).max())
