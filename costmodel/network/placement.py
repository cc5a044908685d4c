"""Which network lies under each part of each mesh axis.

Devices are numbered with the last axis fastest, so the last axes stay inside the fastest and
smallest network for as long as their product fits; an axis that does not fit whole is split, and
its collectives are hierarchical. The last network takes whatever is left. A mesh may say it
instead: `data=2@infiniband,model=4@nvlink`, or `data=8@dcn:2` for the major part of an axis.

What the last of several networks joins are slices: TPU slices, nodes of GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import DIMENSIONS, Device, Link
from toast.costmodel.network.mesh import Axis, Mesh, Place
from toast.costmodel.network.torus import Part, even_shape, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPiece:
    """A part of an axis on one network: `size` devices, `stride` steps apart, inside `length`.

    On a torus `dim` is the dimension, `length` that of the whole slice and `wraps` whether its ends
    are joined; elsewhere `dim` and `stride` say nothing.
    """

    link: int
    size: int
    dim: int = 0
    stride: int = 1
    length: int = 0
    wraps: bool = False

    @property
    def closed(self) -> bool:
        """Whether its devices go once around a ring."""
        return self.wraps and self.size * self.stride == self.length


Placement = tuple[tuple[NetworkPiece, ...], ...]
"""For each axis its pieces, the fastest network and the smallest stride first."""


def place(mesh: Mesh, device: Device) -> Placement:
    """The pieces of each axis; raises `InvalidMesh` for networks that the device does not have."""
    return _Placing(mesh, device).placement()


def across(placement: Placement, device: Device) -> tuple[int, ...]:
    """For each axis how many parts of it, the major ones, the slowest of several networks joins."""
    slow = len(device.links) - 1
    return tuple(
        math.prod(piece.size for piece in axis if piece.link == slow > 0) for axis in placement
    )


def slices(placement: Placement, device: Device) -> int:
    """How many slices the devices of a mesh are in: 1 where no axis leaves the fast networks."""
    return math.prod(across(placement, device))


def largest_slice(device: Device) -> int:
    """How many devices the networks before the slowest one join; all, where there is but one."""
    return device.links[-2 if len(device.links) > 1 else -1].span


def places(placement: Placement, device: Device) -> list[tuple[Place, ...]]:
    """A placement as people write it; a mesh with these places has the same placement."""
    return [
        tuple(
            Place(
                link=device.links[piece.link].name,
                dim=DIMENSIONS[piece.dim] if device.links[piece.link].topology == "torus" else None,
                size=piece.size,
            )
            for piece in axis
        )
        for axis in placement
    ]


class _Placing:
    """The networks that are given away so far: for each axis (network, size, dimension)."""

    def __init__(self, mesh: Mesh, device: Device) -> None:
        self._mesh, self._device = mesh, device
        self._parts: list[list[tuple[int, int, int | None]]] = [[] for _ in mesh.axes]
        self._rest = [axis.size for axis in mesh.axes]
        slow = device.links[-1].name
        self._crossed = {
            number
            for number, axis in enumerate(mesh.axes)
            if len(device.links) > 1 and any(one.link == slow for one in axis.places)
        }

    def placement(self) -> Placement:
        """First what was asked for, then the rest from the last axis to the first."""
        numbers = list(reversed(range(len(self._mesh.axes))))
        for number in numbers:
            self._given(number, self._mesh.axes[number])
        for number in numbers:
            self._chosen(number, self._mesh.axes[number])
        pieces: list[list[NetworkPiece]] = [[] for _ in self._mesh.axes]
        for index, link in enumerate(self._device.links):
            for number, found in enumerate(self._on(index, link)):
                pieces[number] += found
        return tuple(map(tuple, pieces))

    def _room(self, index: int) -> int:
        """How many times as many devices the network can still join."""
        used = (size for parts in self._parts for link, size, _ in parts if link <= index)
        return self._device.links[index].span // math.prod(used)

    def _chosen(self, number: int, axis: Axis) -> None:
        last = len(self._device.links) - 1
        for index in range(last + 1):
            rest = self._rest[number]
            if index == last and rest > 1:
                self._check_inside(axis)
            size = rest if index == last else _divisor(rest, self._room(index))
            self._take(number, index, size, None)

    def _given(self, number: int, axis: Axis) -> None:
        for at, wanted in enumerate(axis.places):
            rest = self._rest[number]
            index = self._device.link(wanted.link)
            if index is None:
                raise InvalidMesh(
                    f"Mesh axis {axis.name!r} is to lie over {wanted.link!r}, which "
                    f"{self._device.name} does not have.",
                    f"Its networks are {', '.join(_names(self._device))}.",
                )
            left = at + 1 < len(axis.places)
            size = wanted.size or (_divisor(rest, self._room(index)) if left else rest)
            parts = at == 0 and not left and number in self._crossed
            if rest % size or (not left and size != rest and not parts):
                raise InvalidMesh(
                    f"The parts of mesh axis {axis.name!r} do not make {axis.size}.",
                    "Give sizes whose product is that of the axis, or leave them out.",
                )
            self._check(axis, index, wanted, size)
            dim = None if wanted.dim is None else DIMENSIONS.index(wanted.dim)
            self._take(number, index, size, dim)

    def _check_inside(self, axis: Axis) -> None:
        """Where an axis crosses by request, what does not has to fit in a slice."""
        if not self._crossed:
            return
        link, most = self._device.links[-1], largest_slice(self._device)
        crossing = math.prod(
            size for parts in self._parts for at, size, _ in parts if self._device.links[at] is link
        )
        raise InvalidMesh(
            f"The mesh {self._mesh} puts {self._mesh.devices // crossing} devices on one side of "
            f"{link.name}, and {self._device.name} has at most {most} together.",
            f"Let more of an axis cross {link.name}, as in {axis.name}={axis.size}@{link.name}:2.",
        )

    def _check(self, axis: Axis, index: int, wanted: Place, size: int) -> None:
        link = self._device.links[index]
        if wanted.dim is not None and DIMENSIONS.index(wanted.dim) >= len(link.dims):
            raise InvalidMesh(
                f"{link.name} of {self._device.name} has no dimension {wanted.dim!r}.",
                f"Its networks are {', '.join(_names(self._device))}.",
            )
        if size > self._room(index) and index + 1 < len(self._device.links):
            raise InvalidMesh(
                f"{link.name} joins {link.span} devices, too few for {size} of mesh axis "
                f"{axis.name!r} beside the other axes.",
                "Give a part of the axis to the next network, as in "
                f"{axis.name}={axis.size}@{link.name}/{self._device.links[-1].name}.",
            )

    def _take(self, number: int, index: int, size: int, dim: int | None) -> None:
        self._rest[number] //= size
        if size > 1:
            self._parts[number].append((index, size, dim))

    def _on(self, index: int, link: Link) -> list[list[NetworkPiece]]:
        """The pieces of each axis that lie on one network."""
        parts = [[(s, d) for i, s, d in found if i == index] for found in self._parts]
        if link.topology != "torus":
            sizes = [math.prod(size for size, _ in found) for found in parts]
            return [[NetworkPiece(link=index, size=size)] if size > 1 else [] for size in sizes]
        placed = _fold(parts, link)
        lengths = [1] * len(link.dims)
        for part in (part for found in placed for part in found):
            lengths[part.dim] *= part.size
        wraps = _wraps(lengths, link)
        return [
            [
                NetworkPiece(
                    link=index,
                    size=part.size,
                    dim=part.dim,
                    stride=part.stride,
                    length=lengths[part.dim],
                    wraps=wraps[part.dim],
                )
                for part in found
            ]
            for found in placed
        ]


def _fold(parts: list[list[tuple[int, int | None]]], link: Link) -> list[list[Part]]:
    """Dimensions that were asked for, the last axis innermost; the others share what is left."""
    placed: list[list[Part]] = [[] for _ in parts]
    used = [1] * len(link.dims)
    for number in reversed(range(len(parts))):
        for size, dim in parts[number]:
            if dim is not None:
                placed[number].append(Part(dim, size, used[dim]))
                used[dim] *= size
    sizes = [math.prod(size for size, dim in found if dim is None) for found in parts]
    free = [dim for dim, taken in enumerate(used) if taken == 1]
    if math.prod(sizes) == 1:
        return placed
    if not free:
        raise InvalidMesh(
            f"All dimensions of {link.name} are given away, and an axis without one is left.",
            f"Name a dimension for each axis that lies over {link.name}, or for none.",
        )
    shape = even_shape(math.prod(sizes), len(free), max(link.dims))
    for number, found in enumerate(fold(sizes, shape)):
        placed[number] += [part._replace(dim=free[part.dim]) for part in found]
    return placed


def _wraps(lengths: list[int], link: Link) -> list[bool]:
    closed = [link.wrap > 0 and length % link.wrap == 0 for length in lengths]
    return [every and (all(closed) or not link.wrap_all) for every in closed]


def _divisor(size: int, limit: int) -> int:
    """The largest divisor of `size` up to `limit`; 1 at least."""
    return next(n for n in range(max(min(size, limit), 1), 0, -1) if size % n == 0)


def _names(device: Device) -> list[str]:
    """The networks of a device as a mesh may name them."""
    return [
        name
        for link in device.links
        for name in (link.name, *(f"{link.name}.{d}" for d in DIMENSIONS[: len(link.dims)]))
    ]
