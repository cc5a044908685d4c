"""Copies of ops that read other values than the originals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.operations import operations_within
from toast.recompute.names import named_again


def clone(ops: Iterable[ir.Operation], before: ir.Operation, instead: dict[Any, Any]) -> int:
    """Copy ops in order before an op; returns how many.

    `instead` has what a copy reads in the place of a value; the results of the copies are added.
    """
    count = 0
    with ir.InsertionPoint(before):
        for op in ops:
            copy = op.operation.clone()
            for one in (copy.operation, *operations_within(copy.operation)):
                one.location = named_again(one.location)
                for index, value in enumerate(one.operands):
                    if value in instead:
                        one.operands[index] = instead[value]
            instead.update(zip(op.results, copy.results, strict=True))
            count += 1
    return count
