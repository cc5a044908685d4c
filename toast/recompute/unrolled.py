"""Layers one after another: their forward ops are copied into the backward pass.

What the backward pass reads of a layer it reads of the copies. These stand before its first op that
does so, and what they read goes through an `optimization_barrier` together with the gradient that
arrives there: XLA then neither takes the copies for the originals nor runs them any earlier. That
is how `jax.checkpoint` is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.operations import may_run_twice
from toast.recompute.block import OUTSIDE, BlockOps
from toast.recompute.clone import clone
from toast.recompute.directions import Direction
from toast.recompute.layers import RepeatedLayers
from toast.recompute.names import words_for
from toast.recompute.ops import Read, is_weight_product, size_of
from toast.recompute.policy import GroupAccount, Policy

_SPREADING = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerPlan:
    """The values `wanted` of a layer are made again by the ops at `again`, which read `inputs`.

    `stays` is what is kept of the forward pass for that.
    """

    wanted: list[Any]
    again: list[int]
    inputs: list[Any]
    stays: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrival:
    """Before which op the backward pass comes to a layer, and the gradients that it comes with."""

    place: int
    gradients: list[Any]


@dataclass(kw_only=True, eq=False)
class Unrolled:
    """Layers of a block that can be recomputed."""

    block: BlockOps
    passes: Sequence[Direction]
    layers: RepeatedLayers
    _blocked: dict[str, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The path of the layers' weights, starred."""
        return self.layers.name

    @property
    def count(self) -> int:
        """How many layers there are."""
        return self.layers.count

    def before_bytes(self) -> int:
        """What the backward pass reads of the layers."""
        return sum(size_of(value) for one in range(self.count) for value in self._kept_today(one))

    @property
    def places(self) -> range:
        """The places of all layers in the block."""
        return range(self.layers.cuts[0], self.layers.cuts[-1])

    def gain(self) -> int:
        """Bytes less at most: what the layers keep, less what stays, less what one makes again."""
        layers = [sum(map(size_of, self._kept_today(one))) for one in range(self.count)]
        plans = [self._plan(one, Policy.ALL) for one in range(self.count)]
        return sum(layers) - _kept_by(plans) - max(layers)

    def rewrite(self, policy: Policy) -> GroupAccount:
        """Recompute all layers by a policy other than `keep`, where that keeps less."""
        before, copied = self.before_bytes(), 0
        plans = [self._plan(layer, policy) for layer in range(self.count)]
        kept = _kept_by(plans)
        if kept < before:
            for layer, plan in enumerate(plans):
                copied += self._write(layer, plan) if plan.again else 0
        return GroupAccount(
            name=self.name,
            layers=self.count,
            policy=policy,
            before_bytes=before,
            kept_bytes=min(kept, before),
            recomputed=copied,
            blocked=tuple(self._blocked),
        )

    def _places(self, layer: int) -> range:
        return range(self.layers.cuts[layer], self.layers.cuts[layer + 1])

    def _kept_today(self, layer: int) -> list[Any]:
        return [
            value
            for place in self._places(layer)
            if self._belongs(place)
            for value in self.block.ops[place].results
            if self._backward_reads(value)
        ]

    def _belongs(self, place: int) -> bool:
        return self.passes[place] == Direction.FORWARD and not self.block.fixed[place]

    def _backward_reads(self, value: Any) -> list[int]:
        readers = self.block.readers.get(value, ())
        return [place for place in readers if self.passes[place] == Direction.BACKWARD]

    def _handed_on(self, value: Any, places: range) -> bool:
        """Whether the forward pass reads a value after the layer that makes it."""
        readers = self.block.readers.get(value, ())
        return any(p not in places and self.passes[p] != Direction.BACKWARD for p in readers)

    def _plan(self, layer: int, policy: Policy) -> _LayerPlan:
        """What of a layer is made again, and what stays of it."""
        places = self._places(layer)
        today = self._kept_today(layer)
        wanted = [value for value in today if not self._stays(value, places, policy)]
        again: set[int] = set()
        inputs: dict[Any, None] = {}
        stack = list(wanted)
        while stack:
            place = self.block.made[stack.pop()]
            if place in again:
                continue
            again.add(place)
            for source in self.block.sources(place):
                if self.block.is_fixed(source):
                    continue
                if self._stays(source, places, policy):
                    inputs[source] = None
                else:
                    stack.append(source)
        own = [value for value in inputs if self.layers.layer_at(self.block.made[value]) >= 0]
        stays = {value for value in today if value not in set(wanted)}.union(own)
        return _LayerPlan(
            wanted=wanted, again=sorted(again), inputs=list(inputs), stays=list(stays)
        )

    def _stays(self, value: Any, places: range, policy: Policy) -> bool:
        """Whether a value is at hand when the backward pass comes to a layer."""
        place = self.block.made[value]
        if place not in places or not self._belongs(place) or self._handed_on(value, places):
            return True
        op = self.block.ops[place]
        if not may_run_twice(op):
            self._blocked[words_for(op)] = None
            return True
        return policy == Policy.PRODUCTS and is_weight_product(op)

    def _write(self, layer: int, plan: _LayerPlan) -> int:
        """Copy a layer into the backward pass; returns how many ops that took."""
        users = [read for value in plan.wanted for read in self._reads_of(value)]
        arrival = self._arrival(layer, min(place for place, _ in users))
        before = self.block.ops[arrival.place]
        barred = [*plan.inputs, *arrival.gradients]
        with ir.InsertionPoint(before), before.location:
            barrier = ir.Operation.create(
                "stablehlo.optimization_barrier",
                results=[value.type for value in barred],
                operands=barred,
            )
        behind = dict(zip(barred, barrier.results, strict=True))
        for gradient in arrival.gradients:
            for read in self._reads_from(gradient, arrival.place):
                read.op.operands[read.index] = behind[gradient]
        count = clone((self.block.ops[place] for place in plan.again), before, behind)
        for _, read in users:
            read.op.operands[read.index] = behind[read.value]
        return count

    def _reads_from(self, value: Any, start: int) -> Iterator[Read]:
        """The reads of a value at a place or behind it."""
        for place in dict.fromkeys(self.block.readers.get(value, ())):
            if place >= start:
                yield from (read for read in self.block.read[place] if read.value == value)

    def _arrival(self, layer: int, first: int) -> _Arrival:
        """Where the backward pass comes to a layer, first read at a place, and with what.

        That is what it reads there, or the last gradient made before, of what is behind the layer.
        Where there is none, the loss being linear, it is the last value of the forward pass.
        """
        behind, block = self.layers.cuts[layer + 1], self.block
        late = [p for p in range(first - 1, behind - 1, -1) if self._reach[p] >= behind]
        beside = {block.made[source] for source in block.sources(first)}
        for place in [*(p for p in late if p in beside), *late]:
            if self.passes[place] == Direction.BACKWARD:
                for value in block.ops[place].results:
                    if any(user >= first for user in self._backward_reads(value)):
                        return self._source(value, behind, first)
        made = next(
            (block.ops[place].results[0] for place in late if block.ops[place].results), None
        )
        return _Arrival(place=first, gradients=[] if made is None else [made])

    def _source(self, value: Any, behind: int, first: int) -> _Arrival:
        """A gradient before it was broadcast, and where it is first read."""
        place = self.block.made[value]
        while self.block.ops[place].name in _SPREADING:
            (source,) = self.block.sources(place)
            made = self.block.made[source]
            if made < behind or self.passes[made] != Direction.BACKWARD:
                break
            if self._reach[made] < behind or size_of(source) > size_of(value):
                break
            value, place = source, made
        users = (user for user in self.block.readers[value] if user > place)
        return _Arrival(place=min(first, *users), gradients=[value])

    @cached_property
    def _reach(self) -> list[int]:
        """For each place the last of the forward pass that it has to do with, else -1."""
        found: list[int] = []
        for place, own in enumerate(self.passes):
            if own == Direction.FORWARD and not self.block.fixed[place]:
                found.append(place)
            else:
                made = (self.block.made[source] for source in self.block.sources(place))
                found.append(max((found[one] for one in made if one != OUTSIDE), default=-1))
        return found

    def _reads_of(self, value: Any) -> list[tuple[int, Read]]:
        return [
            (place, read)
            for place in dict.fromkeys(self._backward_reads(value))
            for read in self.block.read[place]
            if read.value == value
        ]


def _kept_by(plans: Sequence[_LayerPlan]) -> int:
    """The bytes of the forward pass that some layers keep."""
    return sum(map(size_of, {value for plan in plans for value in plan.stays}))
