"""Replica groups in the three syntaxes of HLO.

`{{0,4},{1,5}}` lists the groups. `[4,2]<=[2,4]T(1,0)` is an iota of the devices, reshaped to the
second list, transposed, and cut into rows as the first list says. `mesh['a'=2,'b'=4] {'b'}` names
axes of a mesh (over `device_ids=(...)` where those are not in order); an axis may be cut, as in
`'a':(1)2`: two devices of it, each 1 apart counted in blocks before it.
"""

from __future__ import annotations

import re

import numpy as np

from toast.analysis.errors import InvalidModule
from toast.costmodel.network.device_groups import Devices, Groups, Pairs, grouped, rows_of

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
        return rows_of(_iota(text))
    if text.startswith(("mesh", "@")):
        return _mesh_groups(text if not device_ids else f"{text}, device_ids={device_ids}")
    raise InvalidModule(f"Replica groups {text!r} are in no known form.", "Please report this.")


def parse_pairs(text: str) -> Pairs:
    """The pairs of `source_target_pairs={{0,1},{1,0}}`."""
    rows = (_numbers(row) for row in re.findall(r"\{([\d,\s]+)\}", text))
    return tuple((row[0], row[1]) for row in rows)


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
    return rows_of(grouped(lattice.reshape(shape), inner))


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
