"""What compilers do for some chips, and with some of that changed."""

from __future__ import annotations

from typing import Any

from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.hardware.devices import find

TPU = profile_of(find("tpu-v5e"))
V3 = profile_of(find("tpu-v3"))
GPU = profile_of(find("a100-40gb"))


def holding(device: str, buffers: int, tiled: bool = False, **others: Any) -> CompilerProfile:
    """What the compiler for a device does where it has so many bytes on the chip for buffers.

    Values take the bytes of their elements, where they are not `tiled`.
    """
    chip = find(device)
    given, scoped = profile_of(chip), chip.on_chip_bytes - buffers
    sums, memory = given.reduce_scatter_creator, given.memory_space_assignment
    # matrices are cut into the same pieces as ever
    share = sums.piece_share * memory.scoped_bytes / scoped if scoped else sums.piece_share
    given = given.changed({"reduce_scatter_creator": {"piece_share": share}})
    if not tiled:
        given = given.changed({"layout_assignment": {"pads_values": False}})
    return given.changed({"memory_space_assignment": {"scoped_bytes": scoped, **others}})
