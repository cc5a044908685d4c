"""A `while` that counts from 0: what it carries, what it stacks, and how it is written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from toast.recompute.integers import number
from toast.recompute.ops import shape_of

_CHECKED = 512
"""Turns of a loop for which an index is computed, the first and the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A slot of a loop that gets one element more each time: `element`, [1, ...], at `index`."""

    slot: int
    element: Any
    index: Any
    write: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A slot more: what it begins with, and what the body yields for its argument."""

    init: Any
    location: Any


class Loop:
    """One `while` of a program; `op` changes when it is written anew."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op

    @property
    def condition(self) -> Any:
        """The block that decides whether the loop goes on."""
        return self.op.regions[0].blocks[0]

    @property
    def body(self) -> Any:
        """The block that runs each time."""
        return self.op.regions[1].blocks[0]

    @property
    def yields(self) -> list[Any]:
        """What the body hands to the next turn."""
        return list(terminator(self.body).operands)

    @cached_property
    def counter(self) -> int | None:
        """The slot that counts the turns from 0; None for a loop that has none."""
        for slot, (init, inside, yielded) in enumerate(
            zip(self.op.operands, self.body.arguments, self.yields, strict=True)
        ):
            if shape_of(init) == () and number(init, {}) == 0:
                steps = [number(yielded, {inside: turn}) for turn in (0, 1, 5)]
                if steps == [1, 2, 6] and self._limit(slot) is not None:
                    return slot
        return None

    @cached_property
    def turns(self) -> int:
        """How often the body runs; 0 where nobody knows."""
        return 0 if self.counter is None else self._limit(self.counter) or 0

    def is_invariant(self, slot: int) -> bool:
        """Whether the body hands on what it got."""
        return self.yields[slot] == self.body.arguments[slot]

    def sequence(self, value: Any) -> list[int] | None:
        """What a value of the body is in each turn, as far as turns are checked."""
        if self.counter is None:
            return None
        inside = self.body.arguments[self.counter]
        fixed = self._fixed(self.body)
        found = [number(value, {**fixed, inside: turn}) for turn in self._checked()]
        return None if None in found else [one for one in found if one is not None]

    def counts(self) -> list[int]:
        """The turns that `sequence` is about."""
        return list(self._checked())

    def stacks(self) -> list[Stack]:
        """The slots to which the body adds an element at the place of its turn."""
        found = []
        for slot, (inside, yielded) in enumerate(
            zip(self.body.arguments, self.yields, strict=True)
        ):
            write = _owner(yielded)
            if write is None or write.name != "stablehlo.dynamic_update_slice":
                continue
            target, element, index = (write.operands[place] for place in (0, 1, 2))
            alone = len(list(inside.uses)) == 1 and len(list(yielded.uses)) == 1
            whole = shape_of(element) == (1, *shape_of(inside)[1:])
            if target == inside and alone and whole and shape_of(inside)[0] == self.turns:
                found.append(Stack(slot=slot, element=element, index=index, write=write))
        return found

    def rewrite(self, dropped: Sequence[int], added: Sequence[Added]) -> list[Any]:
        """Leave slots out and put others behind; returns the arguments of the body for those.

        The yields of the new slots are those arguments; `set_yield` says otherwise.
        """
        old = self.op
        with ir.InsertionPoint(old), old.location:
            operands = [*old.operands, *(one.init for one in added)]
            kept = [slot for slot in range(len(operands)) if slot not in set(dropped)]
            new = ir.Operation.create(
                "stablehlo.while",
                results=[operands[slot].type for slot in kept],
                operands=[operands[slot] for slot in kept],
                attributes={name: old.attributes[name] for name in names_of(old)},
                regions=2,
            )
        inside: list[Any] = []
        for region, block in enumerate((self.condition, self.body)):
            inside = [block.add_argument(one.init.type, one.location) for one in added]
            if region == 1:
                self._end(block, inside, kept)
            for slot in sorted(dropped, reverse=True):
                block.erase_argument(slot)
            block.append_to(new.regions[region])
        for place, slot in enumerate(kept):
            if slot < len(old.results):
                old.results[slot].replace_all_uses_with(new.results[place])
        old.erase()
        self.op = new
        for cached in ("counter", "turns"):
            self.__dict__.pop(cached, None)
        return inside

    def set_yield(self, argument: Any, value: Any) -> None:
        """Let the body hand on `value` for one of its arguments."""
        terminator(self.body).operands[argument.arg_number] = value

    def result_of(self, argument: Any) -> Any:
        """What the loop results in for an argument of its body."""
        return self.op.results[argument.arg_number]

    def _end(self, block: Any, inside: Sequence[Any], kept: Sequence[int]) -> None:
        """A new terminator, and an end to the writes of what is dropped."""
        old = terminator(block)
        yields = [*old.operands, *inside]
        with ir.InsertionPoint(old), old.location:
            ir.Operation.create(old.name, operands=[yields[slot] for slot in kept])
        gone = [_owner(value) for slot, value in enumerate(yields) if slot not in set(kept)]
        old.erase()
        for write in gone:
            if write is not None and not any(list(result.uses) for result in write.results):
                write.erase()

    def _limit(self, slot: int) -> int | None:
        """How often the condition holds, if the slot counts the turns."""
        inside, proceed = self.condition.arguments[slot], terminator(self.condition).operands[0]
        fixed = self._fixed(self.condition)

        def holds(turn: int) -> int | None:
            return number(proceed, {**fixed, inside: turn})

        low, high = 0, 1
        while holds(high) == 1:
            low, high = high, high * 2
            if high > 1 << 40:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) == 1 else (low, middle)
        return high if holds(low) == 1 and holds(high) == 0 else None

    def _fixed(self, block: Any) -> dict[Any, int]:
        """The arguments of a block of the loop that are the same known number in each turn."""
        found = {}
        for slot, (init, inside) in enumerate(zip(self.op.operands, block.arguments, strict=True)):
            if shape_of(init) == () and self.is_invariant(slot):
                known = number(init, {})
                if known is not None:
                    found[inside] = known
        return found

    def _checked(self) -> list[int]:
        if self.turns <= 2 * _CHECKED:
            return list(range(self.turns))
        return [*range(_CHECKED), *range(self.turns - _CHECKED, self.turns)]


def terminator(block: Any) -> ir.Operation:
    """The last op of a block."""
    operations = block.operations
    return operations[len(operations) - 1].operation


def names_of(op: ir.Operation) -> list[str]:
    """The names of an op's attributes, which iterate differently over versions of jaxlib."""
    return [one.name if hasattr(one, "name") else str(one) for one in op.attributes]


def _owner(value: Any) -> Any:
    owner = value.owner
    return owner.operation if isinstance(owner, (ir.Operation, ir.OpView)) else None
