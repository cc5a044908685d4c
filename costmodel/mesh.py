"""The logical device mesh: named axes, major first."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from analysis.errors import InvalidMesh

MAX_AXES = 6
"""More axes than any real mesh has; the kernels keep one byte of flags per dimension."""

_HINT = "Write it as name=size pairs separated by commas, for example data=2,model=4."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of the mesh: `size` devices along it."""

    name: str
    size: int


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
        return ",".join(f"{axis.name}={axis.size}" for axis in self.axes)


def _axis(part: str) -> Axis:
    name, equals, size = part.strip().partition("=")
    if not equals or not _NAME.fullmatch(name) or not _SIZE.fullmatch(size):
        raise InvalidMesh(f"{part.strip()!r} is not a mesh axis.", _HINT)
    if int(size) < 1:
        raise InvalidMesh(f"Mesh axis {name!r} has size {size}.", "Sizes are 1 or more.")
    return Axis(name=name, size=int(size))


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
