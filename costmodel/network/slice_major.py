"""A mesh over several slices as its chips are numbered: slice by slice.

An axis that crosses in part is two axes there, `model@dcn` between the slices and `model@inside`
within them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Axis, Mesh, Place
from toast.costmodel.network.placement import across, place

INSIDE = "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMajor:
    """`whole` has the axes between slices first, `inside` those within one alone.

    `positions` are the numbers in `whole` of the devices of the mesh in its own order; `parts` are
    the axes of `whole` that an axis of the mesh is made of.
    """

    whole: Mesh
    inside: Mesh
    positions: tuple[int, ...]
    parts: dict[str, tuple[str, ...]]

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return self.whole.devices // self.inside.devices

    def joined(self, names: Iterable[str]) -> tuple[str, ...]:
        """Axes of `whole` as the mesh has them: both parts of an axis are the axis."""
        left = list(names)
        for axis, parts in self.parts.items():
            if len(parts) > 1 and set(parts) <= set(left):
                left[left.index(parts[0])] = axis
                left.remove(parts[1])
        order = [name for axis, parts in self.parts.items() for name in (axis, *parts)]
        return tuple(sorted(left, key=order.index))


def slice_major(mesh: Mesh, device: Device) -> SliceMajor:
    """The mesh by slices; raises `InvalidMesh` for networks that the device does not have."""
    split = across(place(mesh, device), device)
    slow = device.links[-1].name
    outer: list[Axis] = []
    inner: list[Axis] = []
    parts: dict[str, tuple[str, ...]] = {}
    for axis, count in zip(mesh.axes, split, strict=True):
        crossing = Axis(name=axis.name, size=count, places=(Place(link=slow),))
        if count == axis.size > 1:
            outer.append(crossing)
            parts[axis.name] = (axis.name,)
        elif count == 1:
            inner.append(axis)
            parts[axis.name] = (axis.name,)
        else:
            names = (f"{axis.name}@{slow}", f"{axis.name}@{INSIDE}")
            outer.append(replace(crossing, name=names[0]))
            inner.append(Axis(name=names[1], size=axis.size // count))
            parts[axis.name] = names
    return SliceMajor(
        whole=Mesh(axes=(*outer, *inner)),
        inside=Mesh(axes=tuple(inner)),
        positions=_positions(mesh, split),
        parts=parts,
    )


def _positions(mesh: Mesh, split: tuple[int, ...]) -> tuple[int, ...]:
    """For each device in the order of the mesh its number slice by slice."""
    inside = [axis.size // count for axis, count in zip(mesh.axes, split, strict=True)]
    lattice = np.arange(mesh.devices).reshape([*split, *inside])
    axes = len(split)
    order = [dim for axis in range(axes) for dim in (axis, axes + axis)]
    positions: list[int] = lattice.transpose(order).reshape(math.prod(lattice.shape)).tolist()
    return tuple(positions)
