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
    given, others = profile_of(chip), others | {"scoped_bytes": chip.on_chip_bytes - buffers}
    if not tiled:
        given = given.changed({"layout_assignment": {"pads_values": False}})
    return given.changed({"memory_space_assignment": others})
