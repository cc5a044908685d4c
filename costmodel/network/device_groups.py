"""Groups of devices, and the mesh axes that they run over; devices are in row-major order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from toast.costmodel.network.mesh import Mesh

Groups = tuple[tuple[int, ...], ...]
Pairs = tuple[tuple[int, int], ...]
Devices = NDArray[np.int64]


def axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[str, ...] | None:
    """The mesh axes along which the groups run, or None where they are no product of axes."""
    wanted = {frozenset(group) for group in groups}
    size = len(groups[0])
    for count in range(len(mesh.axes) + 1):
        for chosen in combinations(range(len(mesh.axes)), count):
            names = tuple(mesh.axes[axis].name for axis in chosen)
            made = groups_over(mesh, names)
            if len(made[0]) == size and {frozenset(group) for group in made} == wanted:
                return names
    return None


def axes_of_pairs(pairs: Pairs, mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which some pair's two devices differ."""
    shape = [axis.size for axis in mesh.axes]
    differing: set[int] = set()
    for source, target in pairs:
        places = (np.unravel_index(device, shape) for device in (source, target))
        one, other = places
        differing |= {axis for axis in range(len(shape)) if one[axis] != other[axis]}
    return tuple(mesh.axes[axis].name for axis in sorted(differing))


def groups_over(mesh: Mesh, names: Iterable[str]) -> Groups:
    """The groups of a collective over these axes."""
    wanted = set(names)
    lattice = np.arange(mesh.devices).reshape([axis.size for axis in mesh.axes])
    inner = [i for i, axis in enumerate(mesh.axes) if axis.name in wanted]
    return rows_of(grouped(lattice, inner))


def grouped(lattice: Devices, inner: Sequence[int]) -> Devices:
    """[groups, devices of a group] of a lattice of devices, along some of its dimensions."""
    outer = [axis for axis in range(lattice.ndim) if axis not in inner]
    size = int(np.prod([lattice.shape[axis] for axis in inner], dtype=np.int64))
    return lattice.transpose([*outer, *inner]).reshape(-1, size)


def rows_of(table: Devices) -> Groups:
    """The rows of a table of devices as groups."""
    return tuple(tuple(int(device) for device in row) for row in np.atleast_2d(table))
