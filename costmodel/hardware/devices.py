"""Chips as data: one TOML file each under `chips/`, every figure with its source.

`find` also takes the path of a file of the same form, such as `toast calibrate` writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from toast.analysis.errors import UnknownDevice

SUFFIX = ".toml"
DIMENSIONS = "xyz"
"""How the dimensions of a torus are called, shortest first."""

Topology = Literal["torus", "switch", "ring"]
Compiler = Literal["libtpu", "xla_cpu", "xla_gpu"]

MARGIN = 0.05
"""The part of a device's memory that plans leave free, so that what is said to fit does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One network: what it joins, how fast, and in which shape.

    A device has `links` of them, each of `link_bandwidth` bytes per second and direction, of which
    `efficiency` is reached; `latency` is seconds per hop or message, `span` how many devices it
    joins at most, those behind faster networks included.

    `switch` joins all with all; `ring` is wired from device to device without a switch; `torus` has
    `dims`, the longest that each dimension can be. One of its dimensions closes into a ring where
    its length is a multiple of `wrap` (0: never), with `wrap_all` only if all lengths are.
    `slowdown` is how much longer a kind of collective takes than the formulas say, where measured.
    With `whole_exchanges` an all-to-all that crosses this network goes over it with all messages,
    those between devices that a faster network joins too.
    """

    name: str
    topology: Topology
    link_bandwidth: float
    latency: float
    span: int
    links: int = 1
    efficiency: float = 1.0
    dims: tuple[int, ...] = ()
    wrap: int = 0
    wrap_all: bool = False
    whole_exchanges: bool = False
    slowdown: dict[str, float] = field(default_factory=dict)

    @property
    def lane(self) -> float:
        """Bytes per second that one link moves in one direction."""
        return self.link_bandwidth * self.efficiency

    @property
    def bandwidth(self) -> float:
        """Bytes per second that one device sends over all its links."""
        return self.links * self.lane

    def wired(self, size: int) -> int:
        """How many of a device's links lead to the other devices of a group without a switch."""
        return max(1, math.ceil(self.links * (size - 1) / max(self.span - 1, 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One chip as the cost model sees it.

    `flops` maps an element type to peak operations per second; `bandwidth` is HBM bytes per
    second, of which streaming reaches `stream_efficiency`; `element_rate` is elements per second
    that the vector unit gets through, whatever their type; `tile` is the granularity (rows,
    columns) of its matrix unit; `links` are the networks from the fastest and smallest to the
    slowest and largest. `on_chip_bytes` is memory in which the compiler keeps whole tensors between
    fusions, 0 where it does not. `device_kinds` is what JAX calls it; `sources` has a text for each
    figure.

    `compiler` names the profile of the compiler for it, `generation` the chip of that profile whose
    keys count, and `overrides` are keys of that profile, by section, that are others for this
    device.

    A program takes `program_start` seconds to start, and `buffer_start` for each argument and
    result, where measured. Virtual devices share a host:
    the figures hold while `shared_by` of them work, and one that works while the others rest is
    `alone` times as fast.
    """

    name: str
    kind: str
    platform: str
    compiler: Compiler
    generation: str
    description: str
    memory_bytes: int
    reserved_bytes: int
    bandwidth: float
    flops: dict[str, float]
    matmul_efficiency: float
    stream_efficiency: float
    element_rate: float
    op_overhead: float
    tile: tuple[int, int]
    links: tuple[Link, ...]
    sources: dict[str, str]
    device_kinds: tuple[str, ...] = ()
    on_chip_bytes: int = 0
    program_start: float = 0.0
    buffer_start: float = 0.0
    shared_by: int = 1
    alone: float = 1.0
    overrides: dict[str, dict[str, bool | int | float | str]] = field(default_factory=dict)

    @property
    def plannable_bytes(self) -> int:
        """What a plan may use: what a program may, less `MARGIN` for errors of the prediction."""
        return int(self.usable_bytes * (1.0 - MARGIN))

    @property
    def usable_bytes(self) -> int:
        """What a program may use: the memory less what the runtime keeps for itself."""
        return self.memory_bytes - self.reserved_bytes

    def pace(self, working: int) -> float:
        """How fast each device is while so many work, as a multiple of what the figures say."""
        return 1.0 if self.shared_by == 1 else min(self.alone, self.shared_by / max(working, 1))

    def link(self, name: str) -> int | None:
        """The number of the network called `name`."""
        names = [link.name for link in self.links]
        return names.index(name) if name in names else None


@cache
def catalogue() -> dict[str, Device]:
    """All known devices by name."""
    from toast.costmodel.hardware.device_files import read_profile

    files = sorted(
        resources.files("toast.costmodel.hardware").joinpath("chips").iterdir(),
        key=lambda f: f.name,
    )
    found = (read_profile(f.read_text(), f.name) for f in files if f.name.endswith(SUFFIX))
    return {device.name: device for device in found}


def find(name: str) -> Device:
    """The device called `name`, or that of a file; raises `UnknownDevice`, `InvalidDevice`."""
    return from_file(Path(name)) if is_file(name) else known(name)


def is_file(name: str) -> bool:
    """Whether a device is named by the path of its file."""
    return name.endswith(SUFFIX) or "/" in name


def known(name: str) -> Device:
    """The device of the catalogue called `name`; raises `UnknownDevice`."""
    if name not in catalogue():
        names = ", ".join(sorted(catalogue()))
        raise UnknownDevice(f"There is no device {name!r}.", f"Known devices: {names}.")
    return catalogue()[name]


def from_file(path: Path) -> Device:
    """The device that a file describes; raises `UnknownDevice` and `InvalidDevice`."""
    from toast.costmodel.hardware.device_files import read_profile

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UnknownDevice(
            f"The device file {path} cannot be read: {reason}.",
            "Give a name of `toast devices`, or a file that `toast calibrate` wrote.",
        ) from None
    return read_profile(text, str(path))
