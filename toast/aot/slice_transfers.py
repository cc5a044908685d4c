"""Collectives between TPU slices, which a compiled program leaves to the runtime of its host.

Each is a `send` to the host and a `recv` from it, with the kind and the devices in its attributes:
either ids by group, `{{100000,200000},{100001,200001}}`, or slices times devices of a slice,
`{1,2}x{0:7}`; pairs are `{100000->200000}`. An id is 100,000 times the number of the slice, from 1,
and the number of the device in it. The program itself is that of one slice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toast.aot.hlo import Instruction
from toast.aot.verdict import Kind
from toast.costmodel.network.device_groups import Groups, Pairs, axes_of_groups, axes_of_pairs
from toast.costmodel.network.slice_major import SliceMajor

FIRST_ID = 100_000
_RUNTIME = '_xla_host_transfer_handler_name="xla_megascale_runtime"'
_TYPE = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_TARGET = re.compile(r"_xla_megascale_target=(?:\"([^\"]*)\"|(\{\{.*?\}\}))")
_TIMES = re.compile(r"\{([\d:,]+)\}x\{([\d:,]+)\}")
_KINDS: dict[str, Kind] = {
    "ALL_REDUCE": "all_reduce",
    "ALL_GATHER": "all_gather",
    "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all",
    "ONE_TO_ONE": "collective_permute",
}


class SliceTransfer(NamedTuple):
    """One collective: `axes` of the mesh by slices, `size` bytes of its larger side."""

    kind: Kind
    axes: tuple[str, ...] | None
    group_size: int
    size: int


def slice_transfer(instruction: Instruction, mesh: SliceMajor) -> SliceTransfer | None:
    """The collective whose result an instruction receives; None where it receives none."""
    if instruction.opcode != "recv" or _RUNTIME not in instruction.tail:
        return None
    named, target = _TYPE.search(instruction.tail), _TARGET.search(instruction.tail)
    kind = None if named is None else _KINDS.get(named[1])
    if kind is None or target is None:
        return None
    received = sum(shape.bytes for shape in instruction.shapes[:-2])
    text = target[1] or target[2]
    if kind == "collective_permute":
        axes, group = axes_of_pairs(_pairs(text, mesh), mesh.whole), 2
        return SliceTransfer(kind, axes, group, received)
    groups = _groups(text, mesh)
    size = received * len(groups[0]) if kind == "reduce_scatter" else received
    return SliceTransfer(kind, axes_of_groups(groups, mesh.whole), len(groups[0]), size)


def _groups(text: str, mesh: SliceMajor) -> Groups:
    times = _TIMES.search(text)
    if times is None:
        rows = re.findall(r"\{([\d,]+)\}", text)
        return tuple(tuple(_position(int(n), mesh) for n in row.split(",")) for row in rows)
    slices, devices = _numbers(times[1]), _numbers(times[2])
    return tuple(
        tuple(_position(FIRST_ID * number + device, mesh) for number in slices)
        for device in devices
    )


def _pairs(text: str, mesh: SliceMajor) -> Pairs:
    pairs = re.findall(r"(\d+)->(\d+)", text)
    return tuple((_position(int(one), mesh), _position(int(other), mesh)) for one, other in pairs)


def _position(number: int, mesh: SliceMajor) -> int:
    """Where a device is in the mesh, slice by slice."""
    return (number // FIRST_ID - 1) * mesh.inside.devices + number % FIRST_ID


def _numbers(text: str) -> list[int]:
    """`0:7` are eight numbers, `1,2` two."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition(":")
        found += range(int(low), int(high or low) + 1)
    return found
