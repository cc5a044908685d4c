"""Layers as the turns of a loop: the backward loop makes again what the forward loop stacked.

The forward loop of a scan adds what the backward pass needs of each turn to stacks, which the
backward loop reads at the mirrored place. Stacks that can be computed from others are left out; of
what the layers hand on from turn to turn a stack is added where there is none. The body of the
backward loop then begins with a copy of the ops of the forward body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.operations import may_run_twice
from toast.recompute.block import OUTSIDE, BlockOps
from toast.recompute.clone import clone
from toast.recompute.constants import constant, zeros
from toast.recompute.loops import Added, Loop, Stack, terminator
from toast.recompute.names import words_for
from toast.recompute.ops import is_weight_product, shape_of, size_of
from toast.recompute.policy import GroupAccount, Policy

_RETURN = "stablehlo.return"
_RESHAPING = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """A stack that the backward loop reads: its slots there, and the slices that it takes."""

    stack: Stack
    slots: tuple[int, ...]
    slices: tuple[Any, ...]


@dataclass(kw_only=True, eq=False)
class Scan:
    """A forward loop, at a `place` in its block, and the backward loop that reads its stacks."""

    name: str
    place: int
    forward: Loop
    backward: Loop
    _blocked: dict[str, None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many layers there are."""
        return self.forward.turns

    @property
    def read_back(self) -> list[ReadBack]:
        """The stacks that only the backward loop reads, one element a turn, all in one order."""
        found: list[ReadBack] = []
        for stack in self.forward.stacks():
            if self.order(stack) is not None:
                read = self._read_back(stack)
                if read is not None and all(self._alike(read, one) for one in found[:1]):
                    found.append(read)
        return found

    def _alike(self, one: ReadBack, other: ReadBack) -> bool:
        """Whether two stacks are written and read in one order."""
        orders = [
            (self.order(read.stack), self.backward.sequence(read.slices[0].operands[1]))
            for read in (one, other)
        ]
        return orders[0] == orders[1]

    @property
    def is_mirrored(self) -> bool:
        """Whether the backward loop begins with what the forward loop ends with."""
        orders = {(self.order(one.stack), self._places(one.slices[0])[0]) for one in self.read_back}
        return orders in ({(True, self.count - 1)}, {(False, 0)})

    @property
    def places(self) -> range:
        """The place of the forward loop in the block."""
        return range(self.place, self.place + 1)

    def gain(self) -> int:
        """Bytes less at most: what is stacked, less what stays, less what a turn makes again."""
        plan, before = self._plan(Policy.ALL), self.before_bytes()
        return plan.dropped_bytes - plan.added_bytes - before // self.count

    def before_bytes(self) -> int:
        """What the forward loop stacks for the backward loop."""
        return sum(self._bytes(one.stack) for one in self.read_back)

    def rewrite(self, policy: Policy) -> GroupAccount:
        """Recompute all turns by a policy other than `keep`, where that keeps less."""
        before = self.before_bytes()
        plan = self._plan(policy)
        kept = before
        copied = 0
        after = before - plan.dropped_bytes + plan.added_bytes
        if plan.dropped and after < before:
            kept = after
            copied = _Rewriting(self, plan).run() * self.count
        return GroupAccount(
            name=self.name,
            layers=self.count,
            policy=policy,
            before_bytes=before,
            kept_bytes=kept,
            recomputed=copied,
            blocked=tuple(self._blocked),
        )

    def _bytes(self, stack: Stack) -> int:
        return size_of(self.forward.body.arguments[stack.slot])

    def order(self, stack: Stack) -> bool | None:
        """True where turn i writes place i, False where it is the other way round."""
        places, turns = self.forward.sequence(stack.index), self.forward.counts()
        if places == turns:
            return True
        return False if places == [self.count - 1 - turn for turn in turns] else None

    def _read_back(self, stack: Stack) -> ReadBack | None:
        """How the backward loop reads a stack; None where anything else does, or otherwise."""
        backward = self.backward
        uses = list(self.forward.op.results[stack.slot].uses)
        slots = [use.operand_number for use in uses if use.owner.operation == backward.op]
        if len(slots) < len(uses) or not all(map(self._only_read, slots)):
            return None
        inner = [use for slot in slots for use in backward.body.arguments[slot].uses]
        taken = [use for use in inner if use.owner.operation.name != _RETURN]
        slices = tuple(use.owner.operation for use in taken)
        whole = all(use.operand_number == 0 for use in taken)
        fits = whole and all(self._takes_element(one, stack) for one in slices)
        if not fits or len({tuple(self._places(one)) for one in slices}) != 1:
            return None
        return ReadBack(stack=stack, slots=tuple(slots), slices=slices)

    def _only_read(self, slot: int) -> bool:
        """Whether the backward loop does nothing to a slot, and nobody reads it afterwards."""
        backward = self.backward
        others = (backward.condition.arguments[slot], backward.op.results[slot])
        return backward.is_invariant(slot) and not any(list(one.uses) for one in others)

    def _takes_element(self, op: ir.Operation, stack: Stack) -> bool:
        """Whether an op of the backward body takes the element of each turn."""
        fits = op.name == "stablehlo.dynamic_slice" and op.block == self.backward.body
        same = fits and op.results[0].type == stack.element.type
        return same and self._reads_all(op.operands[1])

    def _places(self, taken: Any) -> list[int]:
        """Which element of a stack a slice takes in each turn."""
        return self.backward.sequence(taken.operands[1]) or []

    def _reads_all(self, index: Any) -> bool:
        """Whether an index of the backward loop goes through all places, the last one first."""
        places = self.backward.sequence(index)
        if self.backward.turns != self.count:
            return False
        mirrored = [self.count - 1 - turn for turn in self.backward.counts()]
        return places is not None and places in (mirrored, mirrored[::-1])

    def _plan(self, policy: Policy) -> _Plan:
        body = BlockOps.of(self.forward.body)
        stacks = {stack.slot for stack in self.forward.stacks()}
        read = {one.stack.slot: one for one in self.read_back}
        roots = {slot: _root(one.stack.element, body) for slot, one in read.items()}
        dropped = [slot for slot, root in roots.items() if self._again(root, body, policy)]
        again, inputs = self._closure([read[s].stack.element for s in dropped], body, policy)
        carried = {body.block.arguments[slot] for slot in stacks}
        if any(value in carried or not _is_tensor(value) for value in inputs):
            return _Plan(body=body, read=read)
        stacked: dict[Any, ReadBack] = {}
        added = []
        for value in inputs:
            slot = value.arg_number if body.made[value] == OUTSIDE else None
            if slot is not None and (self.forward.is_invariant(slot) or self._counts(slot)):
                continue
            there = [read[one] for one, root in roots.items() if root == value]
            same = [one for one in there if size_of(one.stack.element) == size_of(value)]
            if same:
                stacked[value] = same[0]
            else:
                added.append(value)
        return _Plan(
            body=body,
            read=read,
            dropped=dropped,
            again=again,
            inputs=inputs,
            stacked=stacked,
            added=added,
            dropped_bytes=sum(self._bytes(read[slot].stack) for slot in dropped),
            added_bytes=sum(size_of(value) for value in added) * self.count,
        )

    def _counts(self, slot: int) -> bool:
        return slot == self.forward.counter

    def _again(self, value: Any, body: BlockOps, policy: Policy) -> bool:
        """Whether a value of the forward body is made again in the backward body."""
        place = body.made.get(value, OUTSIDE)
        if place == OUTSIDE:
            return False
        if not may_run_twice(body.ops[place]):
            self._blocked[words_for(body.ops[place])] = None
            return False
        return policy != Policy.PRODUCTS or not is_weight_product(body.ops[place])

    def _closure(
        self, wanted: Sequence[Any], body: BlockOps, policy: Policy
    ) -> tuple[list[int], list[Any]]:
        """The ops that make some values again, and what these read of others."""
        again: set[int] = set()
        inputs: dict[Any, None] = {}
        stack = list(wanted)
        while stack:
            value = stack.pop()
            if not self._again(value, body, policy):
                inputs[value] = None
            elif body.made[value] not in again:
                again.add(body.made[value])
                stack.extend(body.sources(body.made[value]))
        return sorted(again), list(inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The stacks at the slots `dropped` give way to the ops at `again`, which read `inputs`.

    Of those `stacked` have stacks of their own, and `added` get one.
    """

    body: BlockOps
    read: dict[int, ReadBack]
    dropped: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    stacked: dict[Any, ReadBack] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)
    dropped_bytes: int = 0
    added_bytes: int = 0


class _Rewriting:
    """Writes both loops of a scan anew: first with slots more, then with slots less."""

    def __init__(self, scan: Scan, plan: _Plan) -> None:
        self._plan = plan
        self._forward, self._backward = scan.forward, scan.backward
        self._read = [plan.read[slot] for slot in plan.dropped]
        self._mirrored = scan.order(self._read[0].stack) is False
        slices = [one for found in self._read for one in found.slices]
        self._where: ir.Operation = _first_of(slices)
        self._place = self._where.operands[1]

    def run(self) -> int:
        """Returns the number of ops that are copied."""
        plan = self._plan
        counter = self._forward.body.arguments[self._forward.counter]
        given = {
            value: self._forward.op.operands[value.arg_number]
            for value in plan.inputs
            if value not in plan.stacked and value not in plan.added and value != counter
        }
        kept = {
            value: self._backward.body.arguments[found.slots[0]]
            for value, found in plan.stacked.items()
        }
        stacks = self._stack_more()
        inside = self._bring([*given.values(), *stacks.values()])
        kept |= {value: inside[stack] for value, stack in stacks.items()}
        with ir.InsertionPoint(self._where), self._where.location:
            instead = {counter: self._turn(counter)}
            instead |= {value: inside[one] for value, one in given.items()}
            instead |= {value: self._element(stack, value) for value, stack in kept.items()}
        count = clone((plan.body.ops[place] for place in plan.again), self._where, instead)
        for found in self._read:
            for one in found.slices:
                one.results[0].replace_all_uses_with(instead[found.stack.element])
                one.erase()
        self._backward.rewrite([slot for found in self._read for slot in found.slots], [])
        self._forward.rewrite(plan.dropped, [])
        return count

    def _stack_more(self) -> dict[Any, Any]:
        """Let the forward loop stack what the copies read of it; the stacks as it leaves them."""
        forward, values = self._forward, self._plan.added
        index = self._read[0].stack.index
        turns = forward.turns
        with ir.InsertionPoint(forward.op), forward.op.location:
            added = [
                Added(init=zeros(_stacked(value, turns)), location=forward.op.location)
                for value in values
            ]
        arguments = forward.rewrite([], added)
        with ir.InsertionPoint(terminator(forward.body)), forward.op.location:
            for argument, value in zip(arguments, values, strict=True):
                rank = len(shape_of(value))
                element = stablehlo.broadcast_in_dim(
                    _stacked(value, 1), value, ir.DenseI64ArrayAttr.get(range(1, rank + 1))
                )
                starts = [index, *[zeros(index.type)] * rank]
                written = stablehlo.dynamic_update_slice(argument, element, starts)
                forward.set_yield(argument, written)
        pairs = zip(values, arguments, strict=True)
        return {value: forward.result_of(argument) for value, argument in pairs}

    def _bring(self, wanted: Sequence[Any]) -> dict[Any, Any]:
        """What the body of the backward loop has values by that are made before it."""
        backward = self._backward
        inside = {
            init: backward.body.arguments[slot]
            for slot, init in enumerate(backward.op.operands)
            if backward.is_invariant(slot)
        }
        new = [value for value in dict.fromkeys(wanted) if value not in inside]
        added = [Added(init=value, location=backward.op.location) for value in new]
        inside.update(zip(new, backward.rewrite([], added), strict=True))
        return inside

    def _turn(self, counter: Any) -> Any:
        """The turn of the forward loop whose place the backward body reads."""
        place = self._place
        if self._mirrored:
            last = constant(place.type, self._forward.turns - 1)
            place = stablehlo.subtract(last, place)
        return place if place.type == counter.type else stablehlo.convert(counter.type, place)

    def _element(self, stack: Any, value: Any) -> Any:
        """The element of a stack that the backward body is about, as the value it was made of."""
        shape = shape_of(value)
        starts = [self._place, *[zeros(self._place.type)] * len(shape)]
        taken = stablehlo.dynamic_slice(stack, starts, ir.DenseI64ArrayAttr.get([1, *shape]))
        return stablehlo.reshape(value.type, taken)


def _stacked(value: Any, turns: int) -> Any:
    kind = ir.RankedTensorType(value.type)
    return ir.RankedTensorType.get([turns, *kind.shape], kind.element_type)


def _is_tensor(value: Any) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _root(value: Any, body: BlockOps) -> Any:
    """What a value is but for its shape."""
    while body.made.get(value, OUTSIDE) != OUTSIDE:
        op = body.ops[body.made[value]]
        if op.name not in _RESHAPING or size_of(op.operands[0]) != size_of(value):
            break
        value = op.operands[0]
    return value


def _first_of(ops: Sequence[Any]) -> ir.Operation:
    """The first of some ops of a block."""
    found = ops[0]
    for op in ops[1:]:
        if op.is_before_in_block(found):
            found = op
    return found
