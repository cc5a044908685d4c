"""How mesh axes fold onto the dimensions of a torus.

As `jax.make_mesh` does: from the last axis to the first, each gets whole dimensions of the slice,
and rather more of them than fewer. Where that does not come out, the slice's devices are counted
row by row and the axes cut that count, so that a dimension may be shared by two axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

Shape = tuple[int, ...]


class Part(NamedTuple):
    """`size` devices along dimension `dim`, each `stride` steps from the next."""

    dim: int
    size: int
    stride: int


def even_shape(devices: int, dims: int, longest: int) -> Shape:
    """The slice of `devices` with the most even sides, shortest first: 8 are 2x4 or 2x2x2.

    These are the shapes that Cloud TPU offers. Sides are at most `longest` where that is possible.
    """
    found = [shape for shape in _shapes(devices, dims, 1) if shape[-1] <= longest]
    return min(found or _shapes(devices, dims, 1), key=lambda shape: (sum(shape), shape))


def _shapes(devices: int, dims: int, least: int) -> list[Shape]:
    if dims == 1:
        return [(devices,)] if devices >= least else []
    return [
        (side, *rest)
        for side in range(least, math.isqrt(devices) + 1)
        if devices % side == 0
        for rest in _shapes(devices // side, dims - 1, side)
    ]


def fold(sizes: Sequence[int], shape: Shape) -> list[list[Part]]:
    """For each axis, major first, its parts of a slice, the innermost first.

    Sizes that no slice of this shape can hold become lines of their own, without a ring.
    """
    return _whole(sizes, shape) or _counted(sizes, shape) or _lines(sizes, len(shape))


def _whole(sizes: Sequence[int], shape: Shape) -> list[list[Part]] | None:
    free = [dim for dim, side in enumerate(shape) if side > 1]
    found: list[list[Part]] = [[] for _ in sizes]
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            continue
        chosen = next(
            (
                dims
                for count in range(len(free), 0, -1)
                for dims in combinations(free, count)
                if math.prod(shape[dim] for dim in dims) == sizes[axis]
            ),
            None,
        )
        if chosen is None:
            return None
        free = [dim for dim in free if dim not in chosen]
        found[axis] = [Part(dim, shape[dim], 1) for dim in reversed(chosen)]
    return found


def _counted(sizes: Sequence[int], shape: Shape) -> list[list[Part]] | None:
    for order in permutations(range(len(shape))):
        found = _cut(sizes, shape, order)
        if found is not None:
            return found
    return None


def _cut(sizes: Sequence[int], shape: Shape, order: Sequence[int]) -> list[list[Part]] | None:
    """Axes as digits of the row-major count over the dimensions in this order."""
    left = [(dim, shape[dim]) for dim in order if shape[dim] > 1]
    stride, found = 1, [list[Part]() for _ in sizes]
    for axis in reversed(range(len(sizes))):
        rest = sizes[axis]
        while rest > 1:
            if not left:
                return None
            dim, side = left.pop()
            taken = math.gcd(rest, side)
            if taken == 1 or (taken < side and taken < rest):
                return None
            found[axis].append(Part(dim, taken, stride))
            rest //= taken
            stride = stride * taken if taken < side else 1
            if taken < side:
                left.append((dim, side // taken))
    return found


def _lines(sizes: Sequence[int], dims: int) -> list[list[Part]]:
    found: list[list[Part]] = [[] for _ in sizes]
    used = [1] * dims
    for axis in reversed(range(len(sizes))):
        if sizes[axis] > 1:
            dim = used.index(min(used))
            found[axis] = [Part(dim, sizes[axis], used[dim])]
            used[dim] *= sizes[axis]
    return found
