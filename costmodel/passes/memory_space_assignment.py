"""How much of the memory on the chip a compiler uses, and for how long.

What waits there is decided for each state by the kernels (`kernels/memory.py`,
`kernels/compute.py`), as it depends on the sizes that a state gives tensors.
"""

from __future__ import annotations

from typing import NamedTuple

from toast.costmodel.compilers.rules import MemorySpaceAssignmentRules
from toast.costmodel.hardware.devices import Device


class OnChip(NamedTuple):
    """Bytes on the chip for operands, and for `buffers` of what is alive.

    A buffer may be there for so many `seconds`; each copy has a `table` in main memory.
    """

    size: float
    buffers: float
    seconds: float
    table: float


def assign_memory(device: Device, rules: MemorySpaceAssignmentRules) -> OnChip:
    """The figures of a device; all zero where the compiler leaves that memory alone."""
    if not rules.assigns:
        return OnChip(0.0, 0.0, 0.0, 0.0)
    buffers = float(max(device.on_chip_bytes - rules.scoped_bytes, 0))
    return OnChip(
        size=float(device.on_chip_bytes),
        buffers=buffers,
        seconds=rules.stay_ratio * device.on_chip_bytes / device.bandwidth,
        table=rules.table_bytes if buffers else 0.0,
    )
