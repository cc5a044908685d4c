"""Attributes that mention sizes, for an op whose operands get other sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.shardcombine.opcopy import GROUPS, OpCopy, Overrides, Shape, Shapes


def changes(op: OpCopy, operands: Shapes, factor: int = 2) -> Iterator[Overrides]:
    """Ways to rewrite the attributes of `op` for operands of these sizes, likeliest first.

    An entry that spans a whole dimension goes on spanning it; a count of groups stays, or is
    divided among `factor` shards.
    """
    fixed = _spanning(op, operands)
    yield fixed
    for name in GROUPS:
        if name in op.op.attributes:
            count = int(op.op.attributes[name].value)
            if count > 1 and count % factor == 0:
                yield {**fixed, name: integer(op.op.attributes[name], count // factor)}


def _spanning(op: OpCopy, operands: Shapes) -> Overrides:
    attributes = op.op.attributes
    old, new = op.operands[0], operands[0]
    found: Overrides = {}
    if "slice_sizes" in attributes:
        sizes = list(attributes["slice_sizes"])
        found["slice_sizes"] = integers(
            [
                after if size == before else size
                for size, before, after in zip(sizes, old, new, strict=True)
            ]
        )
    if "fft_length" in attributes:
        found["fft_length"] = integers(_lengths(list(attributes["fft_length"]), old, new))
    if "limit_indices" in attributes:
        found["limit_indices"] = integers(_limits(attributes, old, new))
    if "k" in attributes and old and int(attributes["k"].value) == old[-1]:
        found["k"] = integer(attributes["k"], new[-1])
    return found


def _lengths(lengths: list[int], old: Shape, new: Shape) -> list[int]:
    tails = zip(lengths, old[-len(lengths) :], new[-len(lengths) :], strict=True)
    return [after if length == before else length for length, before, after in tails]


def _limits(attributes: Any, old: Any, new: Any) -> list[int]:
    rows = zip(
        attributes["start_indices"],
        attributes["limit_indices"],
        attributes["strides"],
        old,
        new,
        strict=True,
    )
    return [
        after if (start, limit, stride) == (0, before, 1) else limit
        for start, limit, stride, before, after in rows
    ]


def integers(values: list[int]) -> Any:
    """An attribute `array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get(values)


def integer(like: Any, value: int) -> Any:
    """An integer attribute of the type that `like` has."""
    return ir.IntegerAttr.get(ir.IntegerAttr(like).type, value)
