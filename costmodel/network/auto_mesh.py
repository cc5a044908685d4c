"""The meshes that `auto:8` stands for: ways to see 8 devices as a lattice, each counted once.

One to three axes, named d0, d1 and d2 with the major first. Two meshes whose axes lie over the same
networks and the same dimensions of a torus, or would if the torus were rotated, are one: the search
gives axes their meaning, so their order says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import DIMENSIONS, Device
from toast.costmodel.network.crossings import (
    as_placed,
    check_slices,
    crossing,
    crossings,
    splits,
)
from toast.costmodel.network.mesh import Axis, Mesh
from toast.costmodel.network.placement import Placement, place

AUTO = "auto"
MAX_AXES = 3
MAX_EACH = 6
"""Meshes with the same number of axes. Each is planned for by itself, and large numbers have many:
those that are least even are left out."""
MAX_DEVICES = 1 << 16

Rotated = tuple[tuple[tuple[float, ...], ...], ...]

_TEXT = re.compile(r"auto(?::([0-9]{1,9}))?")


def is_auto(text: str) -> bool:
    """Whether a mesh is to be chosen rather than given."""
    return text.strip().partition(":")[0] == AUTO


def meshes(text: str, device: Device, slices: int | None = None) -> list[Mesh]:
    """The ways a mesh may lie over networks, or those of `auto:8`, fewer axes and more even first.

    Raises `InvalidMesh` for what is none, and for networks or slices that the device does not have.
    """
    if not is_auto(text):
        return crossings(Mesh.parse(text), device, slices)
    devices = _devices(text)
    if slices is not None:
        check_slices(devices, device, slices)
    if slices in (None, 1):
        found = (_distinct(devices, axes, device) for axes in range(1, MAX_AXES + 1))
    else:
        found = (_sliced(devices, axes, device, slices) for axes in range(1, MAX_AXES + 1))
    return [mesh for some in found for mesh in some]


def _distinct(devices: int, axes: int, device: Device) -> list[Mesh]:
    """Meshes of so many axes, those whose largest axis is smaller first."""
    found: dict[Rotated, Mesh] = {}
    for mesh in _even(devices, axes):
        found.setdefault(_shape(place(mesh, device)), as_placed(mesh, device))
        if len(found) == MAX_EACH:
            break
    return list(found.values())


def _sliced(devices: int, axes: int, device: Device, count: int) -> list[Mesh]:
    """Half of the meshes have an axis for the slices alone; the others cut axes in parts."""
    found: dict[Rotated, Mesh] = {}
    for alone, most in ((True, MAX_EACH // 2), (False, MAX_EACH)):
        for mesh in _even(devices, axes):
            for split in splits([axis.size for axis in mesh.axes], count):
                crossed = [axis.size for axis, n in zip(mesh.axes, split, strict=True) if n > 1]
                if len(found) < most and (crossed == [count]) is alone:
                    way = crossing(mesh, device, split)
                    found.setdefault(_shape(place(way, device)), way)
    return list(found.values())


def _even(devices: int, axes: int) -> Iterator[Mesh]:
    """Meshes of so many axes, those whose largest axis is smaller first."""
    for sizes in sorted(_factors(devices, axes), key=lambda sizes: (max(sizes), sizes)):
        named = (Axis(name=f"d{number}", size=size) for number, size in enumerate(sizes))
        yield Mesh(axes=tuple(named))


def _devices(text: str) -> int:
    match = _TEXT.fullmatch(text.strip())
    count = int(match[1]) if match and match[1] else 0
    if not match or count < 1 or count > MAX_DEVICES:
        raise InvalidMesh(
            f"{text.strip()!r} does not say for how many devices a mesh is to be chosen.",
            f"Write the number, 2 to {MAX_DEVICES:,}, as in auto:8.",
        )
    if count == 1:
        raise InvalidMesh(
            "A mesh of one device leaves nothing to shard.", "Give two devices or more: auto:2."
        )
    return count


def _factors(devices: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Factors of 2 and more, in every order."""
    if axes == 1:
        yield (devices,)
        return
    for first in range(2, devices // 2 ** (axes - 1) + 1):
        if devices % first == 0:
            for rest in _factors(devices // first, axes - 1):
                yield (first, *rest)


def _shape(placement: Placement) -> Rotated:
    """The same for placements that differ in the order of axes and in how a torus is rotated."""
    return min(_rotated(placement, order) for order in permutations(range(len(DIMENSIONS))))


def _rotated(placement: Placement, order: tuple[int, ...]) -> Rotated:
    axes = [
        tuple(
            (piece.link, piece.size, order[piece.dim], piece.stride, piece.length, piece.wraps)
            for piece in axis
        )
        for axis in placement
    ]
    return tuple(sorted(axes))
