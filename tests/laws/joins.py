"""Concatenation along a split dimension, as Shardy allows it for slices of one value (a roll)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.laws.layout import Array, Shards, assemble, box
from tests.laws.localop import run_local

if TYPE_CHECKING:
    from tests.laws.spmd import Placed


@dataclass(frozen=True, slots=True)
class Joined:
    """The operands of a concatenation, whole, and the dimension that is split."""

    dim: int
    wholes: list[Array]

    def run(self, placed: Placed, local: list[Array], device: int) -> list[Array]:
        """The pieces behind a device's part of the result, joined."""
        pieces = []
        assert len(local) == len(self.wholes)
        for whole, (first, last) in zip(self.wholes, self._needed(placed, device), strict=True):
            own = list(box(whole.shape, placed.operands[0], placed.grid, device))
            own[self.dim] = slice(first, last)
            pieces.append(whole[tuple(own)])
        return run_local(placed.handle, pieces, placed.result_shapes(device), {})

    def _needed(self, placed: Placed, device: int) -> list[tuple[int, int]]:
        value = placed.program.values_of(placed.op)[0]
        made = box(placed.program.shape(value), placed.results[0], placed.grid, device)[self.dim]
        found, offset = [], 0
        for whole in self.wholes:
            size = whole.shape[self.dim]
            first = min(max(made.start - offset, 0), size)
            found.append((first, min(max(made.stop - offset, first), size)))
            offset += size
        return found

    def check(self, placed: Placed, stated: int) -> None:
        """Pieces reach over at most as many elements as were stated."""
        for index, whole in enumerate(self.wholes):
            before = after = 0
            for device in placed.grid.devices:
                own = box(whole.shape, placed.operands[index], placed.grid, device)[self.dim]
                first, last = self._needed(placed, device)[index]
                if first < last:
                    before = max(before, own.start - first)
                    after = max(after, last - own.stop)
            assert before + after <= stated, "a piece from further away than stated"


def join(placed: Placed, operands: list[Shards], counts: Counter[str]) -> Joined | None:
    """What is joined along a split dimension; None where the dimension is whole."""
    from tests.laws.spmd import halo_of

    dim = int(placed.handle.attributes["dimension"].value)
    if not placed.results[0][dim]:
        return None
    wholes = [
        assemble(shards, spec, placed.operand_shape(index), placed.grid)
        for index, (shards, spec) in enumerate(zip(operands, placed.operands, strict=True))
    ]
    joined = Joined(dim, wholes)
    joined.check(placed, halo_of(placed, dim))
    counts["collective_permute"] += 1
    return joined
