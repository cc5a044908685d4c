"""What a term's bound is made of: all that the search's relaxation offers it.

A relaxation has a node for each unit, whose strategies are the layouts that a state may give it.
What a row costs at least is added to the strategies of one unit, or to those of a pair of units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toast.analysis.program import Floats, Ints

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Tables

Sum = list[tuple[int, Floats]]
"""Seconds as a sum over units: (unit, seconds by strategy)."""


class Bounds(Protocol):
    """The relaxation of a program as the terms see it."""

    @property
    def tables(self) -> Tables:
        """The tables of the program."""

    def unit_of_tensor(self, tensor: int) -> int:
        """The unit that a tensor is laid out by."""

    def unit_of_item(self, item: int) -> int:
        """The unit of an item."""

    def local(self, tensor: int) -> Floats:
        """Bytes of a tensor on one device, by strategy of its unit."""

    def shards(self, unit: int) -> Ints:
        """[strategies, items] of a unit over how many devices each item is split."""

    def axes(self, items: Ints, unit: int) -> Ints | None:
        """The axes on items by strategy of their unit, None where some are of another unit."""

    def streamed(self, size: float) -> float:
        """The part of a tensor of so many bytes that comes from main memory."""

    def reshard(
        self, source: int, target: int, reduced: Ints, *, row: int = -1, width: float = 1.0
    ) -> Floats:
        """Seconds of one resharding [strategies of the source's unit, of the target's].

        `reduced` are the axes of partial sums, by strategy of the source's unit, those of a `row`
        of partial sums; `width` is how wide elements travel, relative to how they are stored.
        """

    def exchange(self, row: int) -> Floats:
        """Seconds of a row of strips, by strategy of the unit of their tensor."""

    def at_reference(self, tensors: tuple[int, int], seconds: Floats) -> float:
        """Of seconds by strategies of two tensors' units those of the state that is tight."""

    def add_roofline(self, sums: list[Sum], weight: float) -> None:
        """Add `weight` times the most of several sums.

        Of sums over more than two units only the one that is the most in the state that is tight.
        """

    def add_constant(self, seconds: float) -> None:
        """Add seconds that every state has."""

    def add(self, unit: int, seconds: Floats) -> None:
        """Add seconds by strategy of a unit."""

    def add_move(self, source: int, target: int, seconds: Floats) -> None:
        """Add seconds by strategies of two tensors' units."""

    def hold(self, tensor: int, first: int, end: int, size: Floats) -> None:
        """Add bytes by strategy of a tensor's unit, alive at the events from `first` to `end`."""
