"""Which ops of a block are of the forward pass, and which of the backward pass.

JAX says so in the names of ops: `jit(step)/jvp(...)/dot_general` and `transpose(jvp(...))`. A
module without names has none, and no unrolled layers of it are recomputed.
"""

from __future__ import annotations

import enum
from typing import Any

from jaxlib.mlir import ir

from toast.recompute.names import label_of


class Direction(enum.IntEnum):
    """The pass of an op; `NEITHER` for the update of parameters, and what has no name."""

    NEITHER = 0
    FORWARD = 1
    BACKWARD = 2


class Directions:
    """Reads directions off the names of ops; equal locations are read once."""

    def __init__(self) -> None:
        self._known: dict[Any, Direction] = {}

    def of(self, op: ir.Operation) -> Direction:
        """The pass of an op."""
        key = op.location.attr
        if key not in self._known:
            self._known[key] = _named(label_of(op.location))
        return self._known[key]


def _named(label: str) -> Direction:
    if "transpose(" in label:
        return Direction.BACKWARD
    return Direction.FORWARD if "jvp(" in label else Direction.NEITHER
