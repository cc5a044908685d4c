"""A block as a list: where each value is made, what each op reads, of which pass it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.operations import may_run_twice
from toast.recompute.ops import Read, reads

OUTSIDE = -1
"""Where the arguments of a block are made, and what comes from around it."""


@dataclass(kw_only=True)
class BlockOps:
    """The ops of a block in order; the last one is its terminator.

    `made` has the place of the op that makes a value. `read` has what each op reads of what is made
    in the block or passed to it.
    """

    block: Any
    ops: list[ir.Operation] = field(default_factory=list)
    made: dict[Any, int] = field(default_factory=dict)
    read: list[list[Read]] = field(default_factory=list)

    @classmethod
    def of(cls, block: Any) -> BlockOps:
        """Read a block."""
        found = cls(block=block)
        found.made = dict.fromkeys(block.arguments, OUTSIDE)
        for place, view in enumerate(block.operations):
            op = view.operation
            found.ops.append(op)
            found.read.append([one for one in reads(op) if one.value in found.made])
            found.made.update(dict.fromkeys(op.results, place))
        return found

    @cached_property
    def fixed(self) -> list[bool]:
        """Of each op whether it makes the same whatever the block is given."""
        found: list[bool] = []
        for op, read in zip(self.ops, self.read, strict=True):
            places = [self.made[one.value] for one in read]
            same = all(place != OUTSIDE and found[place] for place in places)
            within = len(read) >= len(op.operands)  # else it reads what is around the block
            found.append(same and within and len(op.results) > 0 and may_run_twice(op))
        return found

    def is_fixed(self, value: Any) -> bool:
        """Whether a value is the same whatever the block is given."""
        place = self.made.get(value, OUTSIDE)
        return place != OUTSIDE and self.fixed[place]

    @cached_property
    def readers(self) -> dict[Any, list[int]]:
        """The places at which each value is read, in order."""
        found: dict[Any, list[int]] = {}
        for place, read in enumerate(self.read):
            for one in read:
                found.setdefault(one.value, []).append(place)
        return found

    def sources(self, place: int) -> Iterable[Any]:
        """The values that the op at a place reads."""
        return (one.value for one in self.read[place])
