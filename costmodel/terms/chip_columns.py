"""The figures of a chip that the kernels read, and what libtpu does to them."""

from __future__ import annotations

from typing import NamedTuple

from toast.analysis.program import Floats
from toast.costmodel.hardware.devices import Device
from toast.costmodel.passes.fusion import policy_of
from toast.costmodel.program.arrays import floats

FEEDING = 1.15
"""How much longer a TPU takes to read what feeds a product than to stream it."""
TURNING = 0.7
"""How fast a TPU copies into another memory layout, over how fast it streams."""
ROUNDING = 0.41
"""How fast a TPU rounds elements by themselves to 16 bits, over how fast it handles them."""
PLACING = 0.29
"""How fast a TPU puts elements in place that were gathered along two dimensions at once."""
LAUNCHED = (0.5, 0.5, 0.5, 4.0, 1.0)
"""How many small kernels a TPU launches beside a collective, by `Kind`, in the mean."""
BESIDE = 0.7
"""What handling an element costs that a product has just made on a TPU, over loading it as well."""
BLOCKED = 2.0
"""How many images of 32 bits a TPU stores of one that it convolves block by block: as it is made,
and, as padding between blocks keeps it from being computed there, for the convolution, in 16 bits
and two forms. One that is normalised is stored less its mean as well."""
BLOCKING = 3.4
"""How often a TPU handles an image that a convolution reads block by block: it is cut into blocks,
padded, and each block is put together with the edges of its neighbours."""

SMALL = 0.25
"""What may be on the chip has at most this part of what there is for buffers."""
TOLD = 16384.0
"""Bytes of main memory in which a copy to or from the chip finds where it goes."""
STAYING = 12.0
"""It is there for at most so many times what main memory takes to fill the chip's memory."""


class Chip(NamedTuple):
    """Figures of a chip and of its compiler that the kernels read.

    A matrix unit's tile of `tile_rows` by `tile_columns`; `bandwidth` in bytes, and `element_rate`
    in elements a second; seconds of `overhead` of each fusion, and those of the small fusions
    `launched` beside one collective of a kind. `on_chip` bytes keep operands; up to
    `on_chip_buffers` bytes of what is alive, in pieces of up to `on_chip_piece`, may be on the chip
    for `on_chip_seconds`, each copy to or from which takes `on_chip_told` bytes of main memory, of
    what collectives read or write where `on_chip_sent`. Images lie `in_blocks` times over where
    they are convolved block by block. Deferred gradients fill up to `deferral_budget_bytes`.
    `sums_in_turn`: a sum over several dimensions runs over the axes of the first, then of the next,
    and not in the mesh's order. `narrows`: an f32 that only products read travels in 16 bits.
    `feeding`: how much longer it takes to read what feeds a product; `epilogue_rate`: what an
    element costs that a product has just made, over one that is loaded; elements a second of
    `rounding`, `placing` and `blocking`; and `turning`, a part of the bandwidth.
    """

    tile_rows: int
    tile_columns: int
    in_blocks: float
    deferral_budget_bytes: float
    sums_in_turn: bool
    narrows: bool
    bandwidth: float
    element_rate: float
    overhead: float
    launched: Floats
    on_chip: float
    on_chip_buffers: float
    on_chip_piece: float
    on_chip_seconds: float
    on_chip_told: float
    on_chip_sent: bool
    feeding: float
    epilogue_rate: float
    rounding: float
    placing: float
    blocking: float
    turning: float


def chip_columns(device: Device) -> Chip:
    """All that depends on the chip alone: bytes, seconds, and elements and bytes a second."""
    tpu = policy_of(device).around
    return Chip(
        tile_rows=device.tile[0],
        tile_columns=device.tile[1],
        in_blocks=BLOCKED if device.in_blocks else 0.0,
        deferral_budget_bytes=float(device.usable_bytes) if device.sums_late else 0.0,
        sums_in_turn=tpu,
        narrows=tpu,
        bandwidth=device.bandwidth * device.stream_efficiency,
        element_rate=device.element_rate,
        overhead=device.op_overhead,
        launched=floats([tpu * n * device.op_overhead for n in LAUNCHED]),
        on_chip=float(device.on_chip_bytes),
        on_chip_buffers=float(device.on_chip_buffers),
        on_chip_piece=SMALL * device.on_chip_buffers,
        on_chip_seconds=STAYING * device.on_chip_bytes / device.bandwidth,
        on_chip_told=TOLD if device.on_chip_buffers else 0.0,
        on_chip_sent=device.on_chip_sent,
        feeding=FEEDING if tpu else 1.0,
        epilogue_rate=BESIDE if tpu else 1.0,
        rounding=device.element_rate * ROUNDING,
        placing=device.element_rate * PLACING,
        blocking=device.element_rate / BLOCKING,
        turning=TURNING if tpu else 1.0,
    )
