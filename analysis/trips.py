"""How often a `while` runs, read off its condition where that is a count."""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir

DEFAULT_TRIPS = 10
"""What an unknown trip count is taken to be; such loops are named in the report."""


def trip_count(loop: ir.Operation) -> int | None:
    """Trip count of a counted `stablehlo.while` (as `lax.scan` and `fori_loop` lower), or None."""
    condition, body = (region.blocks[0] for region in loop.regions)
    compare = _producer(_last(condition).operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return None
    left, right = compare.operands[0], compare.operands[1]
    counter = _argument_index(left, condition)
    limit = _value(right, condition, loop)
    direction = str(compare.attributes["comparison_direction"])
    if counter is None or limit is None or not ("LT" in direction or "LE" in direction):
        return None
    start = _constant(loop.operands[counter])
    step = _step(_last(body).operands[counter], body, counter)
    if start is None or not step:
        return None
    span = limit - start + (1 if "LE" in direction else 0)
    return max(0, math.ceil(span / step))


def _last(block: Any) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def _producer(value: Any) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _argument_index(value: Any, block: Any) -> int | None:
    for index, argument in enumerate(block.arguments):
        if argument == value:
            return index
    return None


def _value(value: Any, block: Any, loop: ir.Operation) -> int | None:
    """A constant, directly or as a carried value that starts as one."""
    index = _argument_index(value, block)
    return _constant(value) if index is None else _constant(loop.operands[index])


def _constant(value: Any) -> int | None:
    producer = _producer(value)
    if producer is None or producer.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    attribute = producer.attributes["value"]
    if not isinstance(attribute, ir.DenseIntElementsAttr) or len(attribute) != 1:
        return None
    return int(attribute[0])


def _step(value: Any, body: Any, counter: int) -> int | None:
    add = _producer(value)
    if add is None or add.name != "stablehlo.add":
        return None
    for one, other in ((0, 1), (1, 0)):
        if _argument_index(add.operands[one], body) == counter:
            return _constant(add.operands[other])
    return None
