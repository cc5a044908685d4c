"""What ops ask of sizes that are not equal: sums, parts and windows.

A relation can *derive* the size of its target from the others, say whether given sizes `holds`,
and be repaired: leaves are then split or kept until it holds whatever is chosen for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toast.analysis.windows import SlidingWindow
from toast.resize.sizes import NO_NODE, Node, Sizes

SizeOf = Callable[[Node], int]
"""The new size of a node."""

MOST_BLOCKS = 64
"""A joined dimension is taken for blocks of one size where it has at most so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a size is kept: what of which op."""

    text: str
    op: Any = None

    def __str__(self) -> str:
        return self.text if self.op is None else f"{self.text}, {self.op.name} at {place(self.op)}"


def place(op: Any) -> str:
    """Where an op stands in the user's program, in short."""
    text = str(op.location).removeprefix("loc(").removesuffix(")")
    return text if len(text) <= 100 else f"{text[:97]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSize:
    """The target is as large as its parts together (`concatenate`)."""

    target: Node
    parts: tuple[Node, ...]
    reason: Reason

    @property
    def sources(self) -> tuple[Node, ...]:
        """What the target may be derived from."""
        return self.parts

    def derive(self, size: SizeOf) -> int:
        """The sum."""
        return sum(size(part) for part in self.parts)

    def holds(self, size: SizeOf) -> bool:
        """Whether it is the sum."""
        return size(self.target) == self.derive(size)

    def repair(self, sizes: Sizes) -> None:
        """Make all of them so many blocks of one size, or keep them."""
        leaves = [sizes.leaves(node) for node in (self.target, *self.parts)]
        block = math.gcd(*[sizes.size[one[-1]] if one else 1 for one in leaves])
        free = not any(one[-1] in sizes.kept for one in leaves if one)
        if block == 1 or not free or _old(sizes, self.target) // block > MOST_BLOCKS:
            sizes.keep((self.target, *self.parts), self.reason)
            return
        shared = sizes.new(block)
        for one in leaves:
            count = sizes.size[one[-1]] // block
            sizes.join([sizes.new(count), shared], one[-1:], self.reason)
        common = set(sizes.leaves(shared))
        for node in (self.target, *self.parts):
            sizes.keep(set(sizes.leaves(node)) - common, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """So many elements, `stride` apart, are taken from a dimension (a slice, a gather).

    `rest` are the elements of the dimension beyond those.
    """

    inner: Node
    outer: Node
    rest: int
    reason: Reason
    stride: int = 1

    @property
    def target(self) -> Node:
        """What may be derived: the dimension that is taken from."""
        return self.outer

    @property
    def sources(self) -> tuple[Node, ...]:
        """What the target may be derived from."""
        return (self.inner,)

    def derive(self, size: SizeOf) -> int:
        """As many more as before (the border that a pad puts around a picture)."""
        return self._span(size) + self.rest

    def holds(self, size: SizeOf) -> bool:
        """Whether they fit."""
        return self._span(size) <= size(self.outer)

    def repair(self, sizes: Sizes) -> None:
        """Keep both."""
        sizes.keep((self.inner, self.outer), self.reason)

    def _span(self, size: SizeOf) -> int:
        return (size(self.inner) - 1) * self.stride + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Divides:
    """So many devices, which share a dimension evenly, do so at another size too."""

    node: Node
    parts: int
    reason: Reason

    def holds(self, size: SizeOf) -> bool:
        """Whether they do."""
        return size(self.node) % self.parts == 0

    def repair(self, sizes: Sizes) -> None:
        """Keep it."""
        sizes.keep((self.node,), self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWindow(SlidingWindow):
    """A window of which there are to be so many."""

    result: int

    @property
    def spare(self) -> int:
        """Elements beyond those of the last window."""
        return self.padded - (self.result - 1) * self.stride - self.reach

    @property
    def is_even(self) -> bool:
        """Whether the window takes as many places."""
        return 0 <= self.spare < self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """As many results as windows fit over the source, padded as the op says (`old`).

    `window` is the node of how wide they are, none where an attribute says so; with `spans` that
    is as many as the source has elements.
    """

    source: Node
    window: Node
    target: Node
    old: CountedWindow
    reason: Reason
    spans: bool = False

    @property
    def sources(self) -> tuple[Node, ...]:
        """What the target may be derived from."""
        return self.source, self.window

    def derive(self, size: SizeOf) -> int:
        """As many as fit with the padding as it is."""
        numbers = self._padded(size, result=1)
        return numbers.spare // numbers.stride + 1

    def holds(self, size: SizeOf) -> bool:
        """Whether a padding makes so many of them, none of which lies in the padding alone."""
        new = self.numbers(size)
        reach = max(new.reach, 1)
        sane = max(new.low, new.high) < reach or max(self.old.low, self.old.high) >= self.old.reach
        return new.is_even and sane and (new.high >= 0 or self.old.high < 0 or not self.spans)

    def numbers(self, size: SizeOf) -> CountedWindow:
        """The windows at new sizes: what is padded behind makes up for what else would be wrong."""
        new = self._padded(size, result=size(self.target))
        if new.is_even:
            return new
        spare = min(self.old.spare, new.stride - 1)
        return replace(new, high=new.high - new.spare + spare)

    def repair(self, sizes: Sizes) -> None:
        """Keep all."""
        sizes.keep((self.source, self.window, self.target), self.reason)

    def _padded(self, size: SizeOf, result: int) -> CountedWindow:
        old, source = self.old, size(self.source)
        window = size(self.window) if self.window != NO_NODE else old.width
        if self.spans:
            window = source
        grown = window - old.width
        return CountedWindow(
            size=source,
            width=window,
            result=result,
            stride=old.stride,
            low=old.low + (grown if old.width > 1 and old.low == old.width - 1 else 0),
            high=old.high + (grown if old.width > 1 and old.high == old.width - 1 else 0),
            dilation=old.dilation,
            window_dilation=old.window_dilation,
        )


Relation = JoinedSize | Within | Divides | Windowed
Deriving = JoinedSize | Windowed | Within


def _old(sizes: Sizes, node: Node) -> int:
    return sizes.read(node)
