"""Which compiler, for which chips: names such as `tpu-v5e:2x4` and `a100:8`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from toast.analysis.errors import InvalidRequest
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.placement import place, slices

_NAME = re.compile(r"([a-z0-9\-]+):(\d+(?:x\d+)*)(?:,slices=(\d{1,4}))?")
_MEMORY = re.compile(r"(device_memory_size: )(\d+)")
_HINT = "Write it as tpu-v5e:2x4, tpu-v3:2x2, tpu-v5p:2x2x1, tpu-v5e:2x4,slices=2 or a100:8."


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip that can be compiled for. `clock` is cycles per second, None where none are given.

    `cores` is how many devices one chip of a topology counts as; `name` the compiler's name for
    the topology and `smallest` the least that it knows; `device` the entry of the catalogue that it
    is compared with.
    """

    name: str
    platform: Literal["tpu", "cuda"]
    device: str
    clock: float | None
    cores: int = 1
    smallest: tuple[int, ...] = (2, 2)


# A clock is peak bf16 FLOP/s of the catalogue's entry over (matrix units x 128 x 128 x 2): one
# multiply-add per cell and cycle. Matrix units per device, counted as 128 x 128, from the system
# architecture pages of the Cloud TPU documentation: v3 2 per core, v4 4 per core, v5e 4, v5p 8
# (2 cores of 4), v6e 16 (4 times 256 x 256 is 16 times 128 x 128). For v7x no number is published:
# the compiler counts 13 x 128 x 128 multiply-adds a cycle in large products on a chiplet: 16 busy.
_CUBE = (2, 2, 1)
CHIPS = {
    "tpu-v3": Chip(
        name="v3", platform="tpu", device="tpu-v3", clock=61.5e12 / (2 * 32768), cores=2
    ),
    "tpu-v4": Chip(
        name="v4",
        platform="tpu",
        device="tpu-v4",
        clock=137.5e12 / (4 * 32768),
        cores=2,
        smallest=_CUBE,
    ),
    "tpu-v5e": Chip(name="v5e", platform="tpu", device="tpu-v5e", clock=197e12 / (4 * 32768)),
    "tpu-v5p": Chip(
        name="v5p", platform="tpu", device="tpu-v5p", clock=459e12 / (8 * 32768), smallest=_CUBE
    ),
    "tpu-v6e": Chip(name="v6e", platform="tpu", device="tpu-v6e", clock=918e12 / (16 * 32768)),
    "tpu-v7x": Chip(
        name="tpu7x",
        platform="tpu",
        device="tpu-v7x",
        clock=1153.5e12 / (16 * 32768),
        cores=2,
        smallest=_CUBE,
    ),
    "a100": Chip(name="a100", platform="cuda", device="a100-40gb", clock=None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topology of chips. `shape` is as written: a lattice of TPU chips, or a number of GPUs.

    There are so many `slices` of that shape, which the data-centre network joins.
    """

    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that a name means; raises `InvalidRequest`."""
        match = _NAME.fullmatch(text.strip())
        if match is None:
            raise InvalidRequest(f"{text!r} is not a compile target.", _HINT)
        chip = CHIPS.get(match[1])
        if chip is None:
            known = ", ".join(sorted(CHIPS))
            raise InvalidRequest(f"There is no compiler for {match[1]!r}.", f"Known: {known}.")
        shape = tuple(int(size) for size in match[2].split("x"))
        if chip.platform == "cuda" and len(shape) > 1:
            raise InvalidRequest(f"{text!r} is not a number of GPUs.", _HINT)
        slices = int(match[3] or 1)
        if math.prod(shape) * slices < 1:
            raise InvalidRequest(f"{text!r} has no devices.", _HINT)
        if chip.platform == "cuda" and slices > 1:
            raise InvalidRequest(f"{text!r}: GPUs have nodes, not slices.", "Write a100:16.")
        return cls(chip=chip, shape=shape, slices=slices)

    @classmethod
    def for_device(cls, device: Device, count: int, slices: int = 1) -> Target:
        """The smallest topology with so many of a device; raises `InvalidRequest` for others."""
        chip = next((chip for chip in CHIPS.values() if chip.device == device.generation), None)
        if chip is None:
            known = ", ".join(sorted(chip.device for chip in CHIPS.values()))
            raise InvalidRequest(
                f"There is no compiler to ask about {device.name}.",
                f"Plan without confirming, or for one of {known}.",
            )
        if chip.platform == "cuda":
            return cls(chip=chip, shape=(count,))
        shape = list(chip.smallest)
        while math.prod(shape) * chip.cores * slices < count:
            shape[shape.index(min(shape))] *= 2
        ordered = tuple(sorted(shape, key=lambda size: (size == 1, size)))
        return cls(chip=chip, shape=ordered, slices=slices)

    @classmethod
    def for_mesh(cls, device: Device, mesh: Mesh) -> Target:
        """The smallest topology that a mesh has room on, of as many slices as it crosses."""
        return cls.for_device(device, mesh.devices, slices(place(mesh, device), device))

    def __str__(self) -> str:
        name = next(key for key, chip in CHIPS.items() if chip is self.chip)
        slices = f",slices={self.slices}" if self.slices > 1 else ""
        return f"{name}:{'x'.join(map(str, self.shape))}{slices}"

    @property
    def devices(self) -> int:
        """How many devices the topology has."""
        return math.prod(self.shape) * self.chip.cores * self.slices

    @property
    def topology(self) -> str:
        """The name that the compiler knows the topology of one slice by."""
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    def gpu_config(self, reserved_bytes: int = 0) -> str:
        """The description of the GPU that its compiler reads, a `GpuTargetConfigProto` text.

        `reserved_bytes` are missing from its memory.
        """
        folder = resources.files("toast.aot").joinpath("data")
        text = folder.joinpath(f"{self.chip.name}.txtpb").read_text()
        return _MEMORY.sub(lambda found: f"{found[1]}{int(found[2]) - reserved_bytes}", text)
