"""A loop over layers as a stage runs it: some of its turns, as a program of its own.

The program has the loop and nothing else. Its arguments are what the loop begins with, its results
what the turns make; stacks hold the layers of one stage. The proof that the loop treats a dimension
as a batch is made on it, by the rules of `toast/microbatch`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from jaxlib.mlir.dialects import stablehlo as hlo

from toast.analysis.dead_code import sweep
from toast.analysis.errors import InvalidRequest
from toast.microbatch.blocked import described
from toast.microbatch.colour import shape_of
from toast.microbatch.tree import read_node
from toast.recompute.constants import constant, zeros
from toast.recompute.integers import number
from toast.recompute.loops import Added, Loop, terminator

_SLICE = "stablehlo.dynamic_slice"
_ZEROS = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "convert", "constant")
)
HINT = "Leave the loop to one stage, or write its layers as one jax.lax.scan over stacked weights."


def refusal(op: Any, why: str, hint: str = HINT) -> InvalidRequest:
    """The error that names the op in the way."""
    return InvalidRequest(f"The layers cannot be pipelined: {described(op)}: {why}.", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedLayers:
    """A loop whose turns are layers, by its slots.

    `read` are stacks of which each turn takes its own element, `written` those to which it adds
    one; all in one order, `ascending` or the other way round. What is `carried` goes from turn to
    turn; `counters` count the turns from 0; the body reads none but the first.
    """

    loop: Loop
    turns: int
    ascending: bool
    counters: tuple[int, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]
    carried: tuple[int, ...]

    @property
    def counter(self) -> int:
        """The counter that the body reads."""
        return self.counters[0]

    @property
    def made(self) -> tuple[int, ...]:
        """The slots that the turns change, counters aside."""
        return tuple(sorted((*self.written, *self.carried)))

    @property
    def stacked(self) -> frozenset[int]:
        """The slots that have the layers as dimension 0."""
        return frozenset((*self.read, *self.written))


def scanned_layers(op: Any) -> ScannedLayers | None:
    """How a `while` goes through layers; None where it reads no stacks or hands on nothing."""
    loop = Loop(op)
    if loop.counter is None or loop.turns < 2:
        return None
    counters = _one_counter(loop, loop.counter)
    reads = {slot: found for slot in range(len(op.operands)) if (found := _slices(loop, slot))}
    writes = {stack.slot: stack.index for stack in loop.stacks()}
    carried = tuple(
        slot
        for slot in range(len(op.operands))
        if slot not in counters and not loop.is_invariant(slot) and slot not in writes
    )
    if not reads or not carried:
        return None
    indices = [one.operands[1] for found in reads.values() for one in found]
    orders = {_order(loop, index) for index in (*indices, *writes.values())}
    if len(orders) != 1 or None in orders:
        raise refusal(op, "its turns do not take the elements of all stacks in one order")
    return ScannedLayers(
        loop=loop,
        turns=loop.turns,
        ascending=orders == {True},
        counters=counters,
        read=tuple(reads),
        written=tuple(writes),
        carried=carried,
    )


def _one_counter(loop: Loop, first: int) -> tuple[int, ...]:
    """The slots that count as the first does, whose arguments the body then reads no more."""
    counter = loop.body.arguments[first]
    found = [first]
    pairs = zip(loop.op.operands, loop.body.arguments, loop.yields, strict=True)
    for slot, (init, inside, yielded) in enumerate(pairs):
        begins = inside.type == counter.type and number(init, {}) == 0
        steps = [number(yielded, {inside: turn}) for turn in (0, 1, 5)]
        if slot != first and begins and steps == [1, 2, 6]:
            inside.replace_all_uses_with(counter)
            found.append(slot)
    return tuple(found)


def _order(loop: Loop, index: Any) -> bool | None:
    """True where turn i takes place i, False where it is the other way round."""
    places, turns = loop.sequence(index), loop.counts()
    if places == turns:
        return True
    return False if places == [loop.turns - 1 - turn for turn in turns] else None


def _slices(loop: Loop, slot: int) -> list[Any]:
    """The ops that take an element of a stack; none where anything else reads it."""
    inside = loop.body.arguments[slot]
    shape = shape_of(inside)
    if not loop.is_invariant(slot) or shape[:1] != (loop.turns,):
        return []
    uses = [use for use in inside.uses if use.owner.operation.name != "stablehlo.return"]
    ops = [use.owner.operation for use in uses]
    fits = all(
        op.name == _SLICE
        and use.operand_number == 0
        and op.block == loop.body
        and shape_of(op.results[0]) == (1, *shape[1:])
        for op, use in zip(ops, uses, strict=True)
    )
    return ops if fits else []


class StageLayers:
    """The program of one stage: a module with the loop over its layers."""

    def __init__(self, layers: ScannedLayers, stages: int) -> None:
        op = layers.loop.op
        if layers.turns % stages:
            raise refusal(
                op,
                f"{stages} stages do not divide its {layers.turns} layers",
                "Give the axis pipe a size that divides the number of layers.",
            )
        if read_node(op).captured:
            raise refusal(op, "its body reads values that it does not carry")
        self.layers = layers
        self.count = layers.turns // stages
        self._handed = self._batch_of_zeros()
        self.slots = tuple(
            slot
            for slot in range(len(op.operands))
            if slot not in layers.written
            and slot not in layers.counters
            and not self._is_made(slot)
        )
        """The slots that the arguments of the program are for, in order."""
        self.counts_layers = False
        """Whether the last argument is the number of the stage's first turn."""
        self.module = self._write()

    def argument_types(self) -> Iterator[Any]:
        """The types of the arguments, the number of the first turn aside."""
        op = self.layers.loop.op
        for slot in self.slots:
            yield self._local(slot, op.operands[slot].type)

    def _is_made(self, slot: int) -> bool:
        """Whether the program makes what a slot begins with itself: zeros."""
        zero = slot in self.layers.carried and is_zero(self.layers.loop.op.operands[slot])
        return zero and slot != self._handed

    def _batch_of_zeros(self) -> int | None:
        """Where the first layer gets zeros alone: the slot of the largest, which may be a batch."""
        operands = {slot: self.layers.loop.op.operands[slot] for slot in self.layers.carried}
        tensors = {slot: value for slot, value in operands.items() if shape_of(value)}
        if not tensors or not all(map(is_zero, tensors.values())):
            return None
        return max(tensors, key=lambda slot: math.prod(shape_of(tensors[slot])))

    def _local(self, slot: int, kind: Any) -> Any:
        if slot not in self.layers.stacked:
            return kind
        kind = ir.RankedTensorType(kind)
        return ir.RankedTensorType.get([self.count, *list(kind.shape)[1:]], kind.element_type)

    def _write(self) -> ir.Module:
        op = self.layers.loop.op
        module = ir.Module.create(ir.Location.unknown())
        counter = op.operands[self.layers.counter].type
        types = [*self.argument_types(), counter]
        made = [self._local(slot, op.results[slot].type) for slot in self.layers.made]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(types, made))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            copy = self._copied(list(block.arguments))
            func.ReturnOp([copy.results[slot] for slot in self.layers.made])
        self._shorten(copy, block)
        return module

    def _copied(self, arguments: Sequence[Any]) -> Any:
        """The loop on the arguments, with stacks of fewer layers."""
        op = self.layers.loop.op
        given = dict(zip(self.slots, arguments, strict=False))
        copy = op.clone(ip=ir.InsertionPoint.current)
        for slot, operand in enumerate(op.operands):
            kind = self._local(slot, operand.type)
            if slot not in given:
                with ir.InsertionPoint(copy):
                    given[slot] = zeros(kind)
            copy.operands[slot] = given[slot]
            copy.results[slot].set_type(kind)
            for region in copy.regions:
                region.blocks[0].arguments[slot].set_type(kind)
        return copy

    def _shorten(self, copy: Any, block: Any) -> None:
        """Let the loop run so many turns as there are layers, each at its place of the stacks."""
        condition, body = (region.blocks[0] for region in copy.regions)
        _count_to(condition, condition.arguments[self.layers.counter], self.count)
        counter = body.arguments[self.layers.counter]
        ends = terminator(body)
        kept = [ends.operands[slot].owner.operation for slot in self.layers.counters]
        with ir.InsertionPoint.at_block_begin(body):
            place = counter
            if not self.layers.ascending:
                place = hlo.subtract(constant(counter.type, self.count - 1), counter)
                kept.append(place.owner.operation)
        for op, at in self._indexed(body):
            index = place
            if op.operands[at].type != index.type:
                with ir.InsertionPoint(op):
                    index = hlo.convert(op.operands[at].type, index)
                if place == counter:
                    kept.append(index.owner.operation)
            op.operands[at] = index
            kept.append(op)
        for slot in self.layers.written:
            write = ends.operands[slot].owner.operation
            write.results[0].set_type(body.arguments[slot].type)
        sweep(body)
        self._offset(copy, block, counter, kept)

    def _indexed(self, body: Any) -> Iterator[tuple[Any, int]]:
        """The ops that take or write elements of stacks, and which operand is the index."""
        for slot in self.layers.read:
            for use in list(body.arguments[slot].uses):
                if use.owner.operation.name == _SLICE:
                    yield use.owner.operation, 1
        for slot in self.layers.written:
            yield terminator(body).operands[slot].owner.operation, 2

    def _offset(self, copy: Any, block: Any, counter: Any, kept: Sequence[Any]) -> None:
        """What else reads the counter means the turn of the whole loop."""
        others = [use for use in counter.uses if use.owner.operation not in kept]
        if not others:
            block.erase_argument(len(self.slots))
            main, end = block.owner.operation, terminator(block)
            kinds = [value.type for value in block.arguments]
            kind = ir.FunctionType.get(kinds, [value.type for value in end.operands])
            main.attributes["function_type"] = ir.TypeAttr.get(kind)
            return
        self.counts_layers = True
        readers = [(use.owner.operation, use.operand_number) for use in others]
        added = Added(init=block.arguments[len(self.slots)], location=copy.location)
        loop = Loop(copy)
        (first,) = loop.rewrite([], [added])
        with ir.InsertionPoint.at_block_begin(loop.body):
            turn = hlo.add(loop.body.arguments[self.layers.counter], first)
        for op, at in readers:
            op.operands[at] = turn


def _count_to(condition: Any, counter: Any, turns: int) -> None:
    """Let a loop go on as long as its counter is less."""
    end = terminator(condition)
    with ir.InsertionPoint(end):
        direction = hlo.ComparisonDirectionAttr.get("LT")
        proceed = hlo.compare(counter, constant(counter.type, turns), direction)
        end.operands[0] = proceed
    sweep(condition)


def is_zero(value: Any) -> bool:
    """Whether a value is zeros, as its ops say at once."""
    owner = value.owner
    while isinstance(owner, (ir.Operation, ir.OpView)) and owner.operation.name in _ZEROS:
        op = owner.operation
        if op.name == "stablehlo.constant":
            attribute = op.attributes["value"]
            if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
                return False
            splat = attribute.get_splat_value()
            return bool(getattr(splat, "value", 1) == 0)
        owner = op.operands[0].owner
    return False
