"""Which axes of a mesh, or which major parts of them, cross the slowest of several networks.

A mesh that says so is taken as it stands. Else each way is a mesh of its own, and the search says
which is best: the axes that stay inside a slice are as fast as one slice is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Mesh, Place
from toast.costmodel.network.placement import across, largest_slice, place, slices

MAX_CROSSINGS = 6
"""Ways in which a given mesh may cross. Each is searched by itself."""

Split = tuple[int, ...]
"""For each axis how many parts of it cross: 1 where it stays inside."""


def crossings(mesh: Mesh, device: Device, count: int | None) -> list[Mesh]:
    """The ways in which a mesh may lie over `count` slices, what JAX would do first.

    Without a count there are as many slices as the mesh has to have. Raises `InvalidMesh`.
    """
    placed = place(mesh, device)
    natural = slices(placed, device)
    if any(axis.places for axis in mesh.axes):
        if count not in (None, natural):
            raise InvalidMesh(
                f"The mesh {mesh} lies over {natural} slices of {device.name}, and {count} are "
                "asked for.",
                "Leave the networks or the number of slices out.",
            )
        return [mesh]
    wanted = natural if count is None else count
    check_slices(mesh.devices, device, wanted)
    if wanted == natural == 1:
        return [mesh]
    found = [as_placed(mesh, device)] if wanted == natural else []
    if wanted > 1:
        ways = (crossing(mesh, device, split) for split in splits(_sizes(mesh), wanted))
        others = (way for way in ways if not found or place(way, device) != placed)
        found += list(islice(others, MAX_CROSSINGS - len(found)))
    if not found:
        raise InvalidMesh(
            f"No axes of the mesh {mesh} divide it in {wanted} slices.",
            "Give an axis, or two together, a size that the number of slices divides.",
        )
    return found


def as_placed(mesh: Mesh, device: Device) -> Mesh:
    """The mesh with what crosses said: planned for again, it lies over the same networks."""
    split = across(place(mesh, device), device)
    return crossing(mesh, device, split)


def check_slices(devices: int, device: Device, count: int) -> None:
    """Raise `InvalidMesh` where so many devices are not so many slices of the chip."""
    if count < 1:
        raise InvalidMesh(f"There are no {count} slices.", "Give one slice or more.")
    if count == 1 and len(device.links) == 1:
        return
    if len(device.links) == 1:
        raise InvalidMesh(
            f"{device.name} has one network, {device.links[0].name}, so its devices are in one "
            f"slice and not in {count}.",
            "Name a chip with two networks, or leave the number of slices out.",
        )
    if devices % count:
        raise InvalidMesh(
            f"{devices} devices do not make {count} slices of the same size.",
            "Give a number of slices that divides the number of devices.",
        )
    if devices // count > largest_slice(device):
        raise InvalidMesh(
            f"A slice would have {devices // count} devices, and {device.links[-2].name} of "
            f"{device.name} joins at most {largest_slice(device)}.",
            f"Give {math.ceil(devices / largest_slice(device))} slices or more.",
        )


def crossing(mesh: Mesh, device: Device, split: Split) -> Mesh:
    """The mesh whose axes cross as `split` says; what else there is lies inside."""
    slow = device.links[-1].name
    axes = []
    for axis, parts in zip(mesh.axes, split, strict=True):
        over = Place(link=slow, size=None if parts == axis.size else parts)
        axes.append(axis if parts == 1 else replace(axis, places=(over,)))
    return Mesh(axes=tuple(axes))


def splits(sizes: Sequence[int], count: int) -> Iterator[Split]:
    """Ways to cut axes into `count` slices: whole axes first, then parts of one, then of two."""
    whole = [axis for axis, size in enumerate(sizes) if size == count]
    parts = [axis for axis, size in enumerate(sizes) if size > count and size % count == 0]
    for axis in (*whole, *parts):
        yield _split(len(sizes), {axis: count})
    pairs = [
        (one, other, first)
        for one, other in combinations(range(len(sizes)), 2)
        for first in divisors(math.gcd(sizes[one], count))
        if 1 < first < count and sizes[other] % (count // first) == 0
    ]
    for one, other, first in sorted(pairs, key=lambda pair: _cut(sizes, count, pair)):
        yield _split(len(sizes), {one: first, other: count // first})


def divisors(number: int) -> list[int]:
    """All of them, rising."""
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})


def _cut(sizes: Sequence[int], count: int, pair: tuple[int, int, int]) -> int:
    """How many axes of a pair are cut rather than taken whole."""
    one, other, first = pair
    return (sizes[one] != first) + (sizes[other] != count // first)


def _split(axes: int, parts: dict[int, int]) -> Split:
    return tuple(parts.get(axis, 1) for axis in range(axes))


def _sizes(mesh: Mesh) -> list[int]:
    return [axis.size for axis in mesh.axes]
