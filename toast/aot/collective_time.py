"""What compiled collectives take, by the tables that predictions use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from toast.aot.verdict import CompiledCollective
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.collectives import CollectiveTables, Kind, collective_tables
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import slice_major

BOTH_WAYS = 8
"""Between so many devices or more a compiler sends permutes both ways round at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveClock:
    """Times collectives over the axes of one mesh of one kind of device.

    `bits` are for each axis its bits in the tables. An axis that crosses slices in part has two,
    and each part is known by a name of its own (`slice_major.py`).
    """

    tables: CollectiveTables
    bits: dict[str, int]

    @classmethod
    def of(cls, mesh: Mesh, device: Device) -> Self:
        """The clock of a mesh."""
        parted = slice_major(mesh, device)
        if all(len(names) == 1 for names in parted.parts.values()):
            bits = {axis.name: 1 << number for number, axis in enumerate(mesh.axes)}
            return cls(tables=collective_tables(mesh, device), bits=bits)
        bits = {axis.name: 1 << number for number, axis in enumerate(parted.whole.axes)}
        both = {axis: sum(bits[name] for name in names) for axis, names in parted.parts.items()}
        return cls(tables=collective_tables(parted.whole, device), bits=bits | both)

    def one(self, kind: str, axes: Sequence[str] | None, group_size: int, size: float) -> float:
        """Seconds of one collective whose larger side has `size` bytes on a device.

        Groups that are no product of mesh axes (None) cost what the slowest axes that make as many
        devices do.
        """
        number = Kind[kind.upper()]
        return max(self.tables.seconds(number, axes, size) for axes in self._sets(axes, group_size))

    def share(self, row: CompiledCollective) -> float:
        """The part of its time that each collective of a row has the links to itself.

        Of many permutes between many devices one half goes each way round, at the same time.
        """
        devices = max(self.tables.shards[self._sets(row.axes, row.group_size)])
        many = row.kind == "collective_permute" and devices >= BOTH_WAYS and row.count >= 2
        return 0.5 if many else 1.0

    def seconds(self, row: CompiledCollective) -> float:
        """Seconds of all collectives of a row, one after the other."""
        each = self.one(row.kind, row.axes, row.group_size, row.result_bytes / max(row.count, 1e-9))
        return row.count * self.share(row) * each

    def _sets(self, axes: Sequence[str] | None, group_size: int) -> list[int]:
        if axes is not None:
            return [sum(self.bits[axis] for axis in axes)]
        found: list[int] = np.flatnonzero(self.tables.shards == group_size).tolist()
        return found or [len(self.tables.shards) - 1]


def collective_seconds(rows: Sequence[CompiledCollective], mesh: Mesh, device: Device) -> float:
    """Seconds of compiled collectives, one after the other, by the tables of predictions."""
    clock = CollectiveClock.of(mesh, device)
    return sum(map(clock.seconds, rows))
