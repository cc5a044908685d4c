"""Which axes of one of JAX's meshes cross between slices, by what its devices say of themselves.

TPU slices and nodes of GPUs number themselves in `slice_index`. Devices that have no such number
are in the slices of their processes, where a process has several of them; a TPU without one is in
the only slice. `jax.make_mesh` and `mesh_utils.create_hybrid_device_mesh` make the major part of
an axis cross; an axis that crosses otherwise is priced as if all of it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.crossings import as_placed, crossing
from toast.costmodel.network.mesh import Axis, Mesh

Lattice = NDArray[np.int64]


def placed_mesh(mesh: Any, device: Device) -> Mesh:
    """A `jax.sharding.Mesh` with the axes that cross; as it stands on a device of one network.

    Where its devices say nothing of slices, they are numbered as the networks join them.
    """
    plain = Mesh(axes=tuple(Axis(name=name, size=size) for name, size in mesh.shape.items()))
    if len(device.links) == 1:
        return plain
    numbers = slice_numbers(list(mesh.devices.flat))
    if len(set(numbers)) == 1:
        return as_placed(plain, device)
    return crossing(plain, device, crossed(np.array(numbers).reshape(mesh.devices.shape)))


def slice_numbers(devices: Sequence[Any]) -> list[int]:
    """For each device the slice that it is in, as far as it says so."""
    slices = [getattr(device, "slice_index", None) for device in devices]
    if all(number is not None for number in slices):
        return [int(number) for number in slices if number is not None]
    processes = [int(getattr(device, "process_index", 0)) for device in devices]
    alone = max(Counter(processes).values(), default=1) == 1
    if alone or getattr(devices[0], "platform", "") == "tpu":
        return [0] * len(devices)
    return processes


def crossed(numbers: Lattice) -> tuple[int, ...]:
    """For each axis how many parts of it cross, of a lattice of slices; see the module."""
    split = tuple(len(set(_line(numbers, axis))) for axis in range(numbers.ndim))
    return split if _is_blocks(numbers, split) else _varying(numbers)


def _line(numbers: Lattice, axis: int) -> list[int]:
    line: list[int] = np.moveaxis(numbers, axis, 0).reshape(numbers.shape[axis], -1)[:, 0].tolist()
    return line


def _is_blocks(numbers: Lattice, split: Sequence[int]) -> bool:
    """Whether a lattice is one of blocks, each of a slice of its own."""
    if any(size % parts for size, parts in zip(numbers.shape, split, strict=True)):
        return False
    inside = [size // parts for size, parts in zip(numbers.shape, split, strict=True)]
    firsts = numbers[tuple(slice(None, None, step) for step in inside)]
    blocks = np.kron(firsts, np.ones(inside, dtype=np.int64))
    return len(set(firsts.flat)) == firsts.size and bool((blocks == numbers).all())


def _varying(numbers: Lattice) -> tuple[int, ...]:
    """The whole of each axis along which devices are not all in one slice."""
    return tuple(
        size if bool((np.diff(numbers, axis=axis) != 0).any()) else 1
        for axis, size in enumerate(numbers.shape)
    )
