"""Where the colour that is cut in time lies in each value.

A dimension is a product of leaves (`toast/resize/sizes.py`); the colour is one leaf. In `[b*s]` it
has factors before or behind it. Microbatch t of k has every k-th element of it, beginning with t,
so that devices that share the colour evenly share each microbatch as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.resize.equations import Equations, Nodes
from toast.resize.sizes import Node, Sizes

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourPlace:
    """The dimension of a value that has the colour, and its factors before and behind it."""

    dim: int
    before: int
    size: int
    behind: int

    @property
    def alone(self) -> bool:
        """Whether the dimension is the colour."""
        return self.before == self.behind == 1


@dataclass(slots=True)
class Colour:
    """One leaf of a program's dimensions."""

    equations: Equations
    leaf: Node
    _places: dict[Nodes, tuple[ColourPlace, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Elements of the colour."""
        return self._sizes.size[self.leaf]

    @property
    def _sizes(self) -> Sizes:
        return self.equations.sizes

    def place(self, value: Any) -> ColourPlace | None:
        """Where a value has the colour; None where it has none, or has it twice."""
        places = self.places(value)
        return places[0] if len(places) == 1 else None

    def places(self, value: Any) -> tuple[ColourPlace, ...]:
        """All places of the colour in a value; what is no tensor has none."""
        nodes = self.equations.values.get(value, ())
        found = self._places.get(nodes)
        if found is None:
            found = self._places[nodes] = tuple(
                place for dim, node in enumerate(nodes) for place in self._within(dim, node)
            )
        return found

    def _within(self, dim: int, node: Node) -> list[ColourPlace]:
        leaves, size = self._sizes.leaves(node), self._sizes.size
        if self.leaf not in leaves:
            return []
        return [
            ColourPlace(
                dim=dim,
                before=math.prod(size[leaf] for leaf in leaves[:number]),
                size=size[one],
                behind=math.prod(size[leaf] for leaf in leaves[number + 1 :]),
            )
            for number, one in enumerate(leaves)
            if one == self.leaf
        ]


def shape_of(value: Any) -> Shape:
    """The shape of a tensor, () for anything else."""
    kind = value.type
    return tuple(ir.RankedTensorType(kind).shape) if isinstance(kind, ir.RankedTensorType) else ()


def bytes_of(value: Any) -> int:
    """The bytes of a tensor, 0 for anything else."""
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return 0
    return math.prod(shape_of(value)) * bits_of(ir.RankedTensorType(kind).element_type) // 8


def bits_of(element: Any) -> int:
    """The bits of an element of a tensor; a Boolean takes a byte."""
    if isinstance(element, ir.ComplexType):
        return 2 * bits_of(ir.ComplexType(element).element_type)
    width = getattr(element, "width", 32)
    return max(8, int(width)) if width == 1 else int(width)


def cut_shape(shape: Shape, place: ColourPlace, count: int) -> Shape:
    """The shape of a microbatch, of so many."""
    cut = list(shape)
    cut[place.dim] //= count
    return tuple(cut)


def split_shape(shape: Shape, place: ColourPlace, count: int) -> Shape:
    """The shape with a dimension of its own, behind `place.dim`, for the microbatches."""
    parts = [place.before * (place.size // count), count]
    if place.behind > 1:
        parts.append(place.behind)
    return (*shape[: place.dim], *parts, *shape[place.dim + 1 :])
