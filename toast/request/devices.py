"""Which chip of the catalogue JAX's devices are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toast.analysis.errors import UnknownDevice
from toast.costmodel.hardware.devices import catalogue

AUTO = "auto"
DEFAULT = "tpu-v5e"


def device_of(devices: Sequence[Any]) -> str:
    """The name of the chip that these devices are; raises `UnknownDevice` for none of ours.

    Virtual devices of a CPU are `cpu`, whose figures are round ones for tests: to try a plan for a
    chip that is not there, name the chip.
    """
    kinds = list(dict.fromkeys(str(device.device_kind) for device in devices))
    if len(kinds) > 1:
        raise UnknownDevice(
            f"The mesh is of several kinds of devices: {', '.join(kinds)}.",
            "Name the chip to plan for: device=...",
        )
    for device in catalogue().values():
        if kinds[0] in device.device_kinds:
            return device.name
    raise UnknownDevice(
        f"The catalogue has no chip that JAX calls {kinds[0]!r}.",
        "Name the most similar of `toast devices` (device=...), or measure with `toast calibrate`.",
    )


def device_for(mesh: Any, device: str) -> str:
    """The chip that a request means: `auto` is that of a mesh of JAX, else the default."""
    if device != AUTO:
        return device
    devices = getattr(mesh, "devices", None)
    return DEFAULT if devices is None else device_of(list(devices.flat))
