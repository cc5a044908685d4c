"""Arrays cut over a mesh of devices and put together again, with NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from toast.costmodel.network.mesh import Mesh
from toast.plans.plan import Spec

Array = np.ndarray[Any, Any]
Shards = list[Array]
"""One local array per device, in row-major order of the mesh."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The devices of a mesh, row-major."""

    mesh: Mesh

    @property
    def devices(self) -> range:
        """All devices."""
        return range(self.mesh.devices)

    def coordinates(self, device: int) -> dict[str, int]:
        """Where a device stands along each axis."""
        sizes = [axis.size for axis in self.mesh.axes]
        place = np.unravel_index(device, sizes)
        return {axis.name: int(i) for axis, i in zip(self.mesh.axes, place, strict=True)}

    def part(self, axes: Sequence[str], device: int) -> tuple[int, int]:
        """Which part of how many a device holds of a dimension over `axes`, major first."""
        place, sizes = self.coordinates(device), {a.name: a.size for a in self.mesh.axes}
        index = 0
        for axis in axes:
            index = index * sizes[axis] + place[axis]
        return index, math.prod(sizes[axis] for axis in axes)

    def groups(self, axes: Sequence[str]) -> list[list[int]]:
        """Devices that differ along `axes` only, the first of each group first."""
        sizes = {axis.name: axis.size for axis in self.mesh.axes}
        rest = [name for name in sizes if name not in axes]
        found = []
        for fixed in product(*(range(sizes[name]) for name in rest)):
            wanted = dict(zip(rest, fixed, strict=True))
            members = [d for d in self.devices if wanted.items() <= self.coordinates(d).items()]
            found.append(members)
        return found


def interval(size: int, index: int, count: int) -> tuple[int, int]:
    """Part `index` of `count` of a dimension; the last parts are shorter where it is uneven."""
    step = -(-size // count)
    return min(index * step, size), min((index + 1) * step, size)


def box(shape: Sequence[int], spec: Spec, grid: Grid, device: int) -> tuple[slice, ...]:
    """What a device holds of an array of `shape`."""
    return tuple(
        slice(*interval(size, *grid.part(axes, device)))
        for size, axes in zip(shape, spec, strict=True)
    )


def cut(whole: Array, spec: Spec, grid: Grid) -> Shards:
    """The parts of an array."""
    return [whole[box(whole.shape, spec, grid, device)] for device in grid.devices]


def assemble(shards: Shards, spec: Spec, shape: Sequence[int], grid: Grid) -> Array:
    """The array behind its parts; asserts that devices with the same part agree on it."""
    whole = np.zeros(tuple(shape), dtype=shards[0].dtype)
    for device in grid.devices:
        whole[box(shape, spec, grid, device)] = shards[device]
    for device in grid.devices:
        part = whole[box(shape, spec, grid, device)]
        assert np.array_equal(part, shards[device]), "replicas differ"
    return whole


def moves(source: Spec, target: Spec) -> frozenset[str]:
    """The collectives that bring `source` to `target`; slicing is free."""
    before, after = {a for axes in source for a in axes}, {a for axes in target for a in axes}
    left = {a for old, new in zip(source, target, strict=True) for a in old if a not in new}
    found = set()
    if left & after:
        found.add("all_to_all")
    if left - after:
        found.add("all_gather")
    if after - before:
        found.add("slice")
    return frozenset(found)
