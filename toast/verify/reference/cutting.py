"""Arrays cut over devices as a layout says, and put together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toast.analysis.errors import UnsupportedModule
from toast.emit.lowering.devices import Devices
from toast.plans.plan import Spec
from toast.verify.reference.single import Array


def cut(whole: Array, spec: Spec, devices: Devices) -> list[Array]:
    """What each device holds of an array; devices that hold the same share it."""
    known: dict[tuple[int, ...], Array] = {}
    found = []
    for device in range(devices.count):
        place = tuple(devices.part(axes, device) for axes in spec)
        if place not in known:
            part = whole[_box(whole.shape, spec, devices, device)]
            known[place] = np.array(part, order="C")
        found.append(known[place])
    return found


def assemble(
    held: list[Array], spec: Spec, shape: Sequence[int], devices: Devices, name: str
) -> Array:
    """The array behind its parts; devices with the same part have to hold the same."""
    whole = np.zeros(tuple(shape), held[0].dtype)
    seen: dict[tuple[int, ...], Array] = {}
    for device, part in enumerate(held):
        place = tuple(devices.part(axes, device) for axes in spec)
        if place in seen:
            if seen[place] is not part and not _alike(seen[place], part):
                raise UnsupportedModule(
                    f"Devices hold different parts of {name} where they should hold the same.",
                    "The module is wrong; please report it.",
                )
            continue
        seen[place] = part
        whole[_box(shape, spec, devices, device)] = part
    return whole


def _alike(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def _box(shape: Sequence[int], spec: Spec, devices: Devices, device: int) -> tuple[slice, ...]:
    found = []
    for size, axes in zip(shape, spec, strict=True):
        part = size // devices.parts(axes)
        first = devices.part(axes, device) * part
        found.append(slice(first, first + part))
    return tuple(found)
