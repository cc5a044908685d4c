"""How often a `while` runs, read off its condition where that is a count.

What decides it may stand in functions that the condition or the body calls, or be an argument of
the function that holds the loop: values are followed through calls, as if these were inlined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

DEFAULT_TRIPS = 10
"""What an unknown trip count is taken to be; such loops are named in the report."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A call that a value is looked for behind: its callee's block, and the call it is within."""

    call: ir.Operation
    block: Any
    outer: _Frame | None


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, as seen within a call."""

    handle: Any
    frame: _Frame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TripCounter:
    """Counts the loops of one function.

    `entry` is its block, `body_of` gives the block of what an op calls, None for an op that is no
    call. `argument` is asked for the whole number that an argument of the function is, None where
    it is not known to be one.
    """

    entry: Any
    body_of: Callable[[ir.Operation], Any]
    argument: Callable[[int], int | None]

    def count(self, loop: ir.Operation) -> int | None:
        """Trip count of a counted `stablehlo.while` (as `scan` and `fori_loop` lower), or None."""
        condition, body = (region.blocks[0] for region in loop.regions)
        compare, frame = self._producer(_Value(_last(condition).operands[0], None))
        if compare is None or compare.name != "stablehlo.compare":
            return None
        left, right = (_Value(compare.operands[index], frame) for index in (0, 1))
        direction = str(compare.attributes["comparison_direction"])
        counter = self._index(left, condition)
        limit = self._limit(right, condition, loop)
        if counter is None or limit is None or not ("LT" in direction or "LE" in direction):
            return None
        start = self.constant(loop.operands[counter])
        step = self._step(_last(body).operands[counter], body, counter)
        if start is None or not step:
            return None
        span = limit - start + (1 if "LE" in direction else 0)
        return max(0, math.ceil(span / step))

    def constant(self, value: Any) -> int | None:
        """The whole number that a value of the function is, where it is known to be one."""
        return self._constant(_Value(value, None))

    def _constant(self, value: _Value) -> int | None:
        found = self._source(value)
        owner = found.handle.owner
        if isinstance(owner, ir.Block):
            is_argument = found.frame is None and owner == self.entry
            return self.argument(found.handle.arg_number) if is_argument else None
        if owner.name not in ("stablehlo.constant", "sdy.constant"):
            return None
        attribute = owner.operation.attributes["value"]
        if not isinstance(attribute, ir.DenseIntElementsAttr) or len(attribute) != 1:
            return None
        return int(attribute[0])

    def _source(self, value: _Value) -> _Value:
        """Where a value comes from, calls left aside."""
        handle, frame = value.handle, value.frame
        while True:
            owner = handle.owner
            if isinstance(owner, ir.Block):
                if frame is None or owner != frame.block:
                    return _Value(handle, frame)
                handle, frame = frame.call.operands[handle.arg_number], frame.outer
                continue
            call = owner.operation
            block = self.body_of(call)
            if block is None:
                return _Value(handle, frame)
            handle, frame = _last(block).operands[handle.result_number], _Frame(call, block, frame)

    def _producer(self, value: _Value) -> tuple[ir.Operation | None, _Frame | None]:
        found = self._source(value)
        owner = found.handle.owner
        return (None if isinstance(owner, ir.Block) else owner.operation), found.frame

    def _index(self, value: _Value, block: Any) -> int | None:
        """Which argument of a block a value is."""
        found = self._source(value).handle
        for index, argument in enumerate(block.arguments):
            if argument == found:
                return index
        return None

    def _limit(self, value: _Value, condition: Any, loop: ir.Operation) -> int | None:
        """A constant, directly or as a carried value that starts as one."""
        index = self._index(value, condition)
        return self._constant(value) if index is None else self.constant(loop.operands[index])

    def _step(self, value: Any, body: Any, counter: int) -> int | None:
        add, frame = self._producer(_Value(value, None))
        if add is None or add.name != "stablehlo.add":
            return None
        for one, other in ((0, 1), (1, 0)):
            if self._index(_Value(add.operands[one], frame), body) == counter:
                return self._constant(_Value(add.operands[other], frame))
        return None


def _last(block: Any) -> ir.Operation:
    operations = block.operations
    return operations[len(operations) - 1].operation
