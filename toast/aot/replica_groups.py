"""Replica groups in the three syntaxes of HLO, and the mesh axes that they run over.

`{{0,4},{1,5}}` lists the groups. `[4,2]<=[2,4]T(1,0)` is an iota of the devices, reshaped to the
second list, transposed, and cut into rows as the first list says. `mesh['a'=2,'b'=4] {'b'}` names
axes of a mesh (over `device_ids=(...)` where those are not in order); an axis may be cut, as in
`'a':(1)2`: two devices of it, each 1 apart counted in blocks before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from toast.analysis.errors import InvalidModule
from toast.costmodel.network.mesh import Mesh

Groups = tuple[tuple[int, ...], ...]
Pairs = tuple[tuple[int, int], ...]
Devices = NDArray[np.int64]

_IOTA = re.compile(r"\[([\d,]+)\](?:<=\[([\d,]+)\])?(?:T\(([\d,]+)\))?")
_AXIS = re.compile(r"'?([\w.\-]+)'?=(\d+)")
_USED = re.compile(r"'?([\w.\-]+)'?(?::\((\d+)\)(\d+))?")


def parse_groups(text: str, devices: int, device_ids: str = "") -> Groups:
    """The groups that an attribute means, among `devices` devices; all of them for an empty one.

    `device_ids` is the attribute of that name where the printer wrote the mesh form in two parts.
    """
    text = text.strip()
    if text in ("", "{}"):
        return (tuple(range(devices)),)
    if text.startswith("{"):
        return tuple(_numbers(row) for row in re.findall(r"\{([\d,\s]*)\}", text[1:-1]))
    if text.startswith("["):
        return _rows(_iota(text))
    if text.startswith(("mesh", "@")):
        return _mesh_groups(text if not device_ids else f"{text}, device_ids={device_ids}")
    raise InvalidModule(f"Replica groups {text!r} are in no known form.", "Please report this.")


def parse_pairs(text: str) -> Pairs:
    """The pairs of `source_target_pairs={{0,1},{1,0}}`."""
    rows = (_numbers(row) for row in re.findall(r"\{([\d,\s]+)\}", text))
    return tuple((row[0], row[1]) for row in rows)


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
    """The groups of a collective over these axes, devices in row-major order of the mesh."""
    wanted = set(names)
    lattice = np.arange(mesh.devices).reshape([axis.size for axis in mesh.axes])
    inner = [i for i, axis in enumerate(mesh.axes) if axis.name in wanted]
    return _rows(_grouped(lattice, inner))


def _grouped(lattice: Devices, inner: Sequence[int]) -> Devices:
    outer = [axis for axis in range(lattice.ndim) if axis not in inner]
    size = int(np.prod([lattice.shape[axis] for axis in inner], dtype=np.int64))
    return lattice.transpose([*outer, *inner]).reshape(-1, size)


def _rows(table: Devices) -> Groups:
    return tuple(tuple(int(device) for device in row) for row in np.atleast_2d(table))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _iota(text: str) -> Devices:
    match = _IOTA.match(text)
    if match is None:
        raise InvalidModule(f"Device list {text!r} is in no known form.", "Please report this.")
    shape = _numbers(match[1])
    source = _numbers(match[2]) if match[2] else shape
    devices: Devices = np.arange(int(np.prod(source, dtype=np.int64)), dtype=np.int64)
    devices = devices.reshape(source)
    if match[3]:
        devices = devices.transpose(_numbers(match[3]))
    return devices.reshape(shape)


def _mesh_groups(text: str) -> Groups:
    head, _, used = text.rpartition("{")
    axes = [(name, int(size)) for name, size in _AXIS.findall(head.partition("device_ids")[0])]
    sizes = [size for _, size in axes]
    lattice = _device_ids(head, sizes)
    names = [name for name, _ in axes]
    shape, inner = _cut(names, sizes, _USED.findall(used.partition("}")[0]))
    return _rows(_grouped(lattice.reshape(shape), inner))


def _device_ids(head: str, sizes: list[int]) -> Devices:
    """The devices of a mesh, from `device_ids=([2,4]T(1,0))`, `(0,2,1,3)` or nothing."""
    written = head.partition("device_ids=")[2].strip()
    if not written:
        return np.arange(int(np.prod(sizes, dtype=np.int64)), dtype=np.int64)
    inside = written[1:].strip()
    if inside.startswith("["):
        return _iota(inside).reshape(-1)
    return np.array(_numbers(inside.partition(")")[0]), dtype=np.int64)


def _cut(
    names: list[str], sizes: list[int], used: list[tuple[str, str, str]]
) -> tuple[list[int], list[int]]:
    """The mesh's shape with cut axes split in (before, part, after), and the used dimensions."""
    pieces = {name: [(size, False)] for name, size in zip(names, sizes, strict=True)}
    for name, before, part in used:
        if name not in pieces or len(pieces[name]) > 1:
            raise InvalidModule(
                f"Replica groups over axis {name!r} are in no known form.", "Please report this."
            )
        size = sizes[names.index(name)]
        if not part:
            pieces[name] = [(size, True)]
        else:
            first, middle = int(before), int(part)
            pieces[name] = [(first, False), (middle, True), (size // first // middle, False)]
    flat = [piece for name in names for piece in pieces[name]]
    return [size for size, _ in flat], [at for at, (_, taken) in enumerate(flat) if taken]
