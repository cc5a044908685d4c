"""The logical device mesh: named axes, major first, and the networks they are asked to lie over."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from toast.analysis.errors import InvalidMesh

MAX_AXES = 6
"""More axes than any real mesh has; the kernels keep one byte of flags per dimension."""

_HINT = "Write it as name=size pairs separated by commas, for example data=2,model=4."
_PLACE_HINT = (
    "Write it as data=2@infiniband,model=4@nvlink, data=16@nvlink:8/infiniband:2 or model=4@ici.x; "
    "`toast devices` lists the networks."
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE = re.compile(r"[0-9]{1,9}")
_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9_\-]{0,63})(?:\.([xyz]))?(?::([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a part of an axis lies: a network, a dimension of it if it is a torus, how many."""

    link: str
    dim: str | None = None
    size: int | None = None

    def __str__(self) -> str:
        dim = "" if self.dim is None else f".{self.dim}"
        return f"{self.link}{dim}" + ("" if self.size is None else f":{self.size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of the mesh: `size` devices along it.

    `places` are the networks that it was asked to lie over, the fastest first; none: chosen.
    """

    name: str
    size: int
    places: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}={self.size}" + ("@" + "/".join(map(str, self.places))) * bool(
            self.places
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A lattice of devices; device order is row-major in `axes`."""

    axes: tuple[Axis, ...]

    @property
    def devices(self) -> int:
        """How many devices the mesh has."""
        return math.prod(axis.size for axis in self.axes)

    def shards(self, mask: int) -> int:
        """Into how many shards the axes of `mask` (bit a is axis number a) split."""
        sizes = (axis.size for number, axis in enumerate(self.axes) if mask >> number & 1)
        return math.prod(sizes)

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """The mesh that `data=2,model=4` means; raises `InvalidMesh`."""
        axes = tuple(_axis(part) for part in text.split(",")) if text.strip() else ()
        _check(text, axes)
        return cls(axes=axes)

    def __str__(self) -> str:
        return ",".join(map(str, self.axes))


def _axis(part: str) -> Axis:
    pair, at, places = part.strip().partition("@")
    name, equals, size = pair.partition("=")
    if not equals or not _NAME.fullmatch(name) or not _SIZE.fullmatch(size):
        raise InvalidMesh(f"{part.strip()!r} is not a mesh axis.", _HINT)
    if int(size) < 1:
        raise InvalidMesh(f"Mesh axis {name!r} has size {size}.", "Sizes are 1 or more.")
    found = tuple(parse_place(text, name) for text in places.split("/")) if at else ()
    return Axis(name=name, size=int(size), places=found)


def parse_place(text: str, axis: str) -> Place:
    """The place that `nvlink`, `nvlink:8` or `ici.x:4` means; raises `InvalidMesh`."""
    match = _PLACE.fullmatch(text.strip())
    if match is None:
        raise InvalidMesh(f"{text!r} is no network for mesh axis {axis!r}.", _PLACE_HINT)
    return Place(link=match[1], dim=match[2], size=None if match[3] is None else int(match[3]))


def _check(text: str, axes: tuple[Axis, ...]) -> None:
    if not axes:
        raise InvalidMesh("The mesh is empty.", _HINT)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidMesh(f"Mesh axis {name!r} is named twice.", "Give each axis its own name.")
    if len(axes) > MAX_AXES:
        raise InvalidMesh(f"The mesh has {len(axes)} axes.", f"At most {MAX_AXES} are supported.")
    if math.prod(axis.size for axis in axes) == 1:
        raise InvalidMesh(
            f"The mesh {text.strip()} has one device, so there is nothing to shard.",
            "Give at least one axis a size of 2 or more.",
        )
