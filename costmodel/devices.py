"""The catalogue of chips: one TOML file each under `chips/`, every figure with its source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from analysis.errors import UnknownDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The network that a mesh axis runs over.

    `bandwidth` is bytes per second that one device can send over it (all its links in one ring
    direction pair), `latency` seconds per hop, `span` how many devices it joins at most.
    """

    name: str
    topology: str
    bandwidth: float
    latency: float
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One chip as the cost model sees it.

    `flops` maps an element type to peak operations per second; `bandwidth` is HBM bytes per
    second, of which streaming reaches `stream_efficiency`; `element_rate` is elements per second
    that the vector unit gets through, whatever their type; `tile` is the granularity (rows,
    columns) of its matrix unit; `links` are the networks from the fastest and smallest to the
    slowest and largest.
    """

    name: str
    kind: str
    platform: str
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
    sources: tuple[str, ...]

    @property
    def usable_bytes(self) -> int:
        """What a program may use: the memory less what the runtime keeps for itself."""
        return self.memory_bytes - self.reserved_bytes


@cache
def catalogue() -> dict[str, Device]:
    """All known devices by name."""
    files = sorted(resources.files("costmodel").joinpath("chips").iterdir(), key=lambda f: f.name)
    texts = [file.read_text() for file in files if file.name.endswith(".toml")]
    devices = [_device(tomllib.loads(text)) for text in texts]
    return {device.name: device for device in devices}


def find(name: str) -> Device:
    """The device called `name`; raises `UnknownDevice`."""
    known = catalogue()
    if name not in known:
        names = ", ".join(sorted(known))
        raise UnknownDevice(f"There is no device {name!r}.", f"Known devices: {names}.")
    return known[name]


def _device(data: dict[str, Any]) -> Device:
    links = tuple(Link(**link) for link in data.pop("links"))
    tile = (data["tile"][0], data["tile"][1])
    sources = tuple(data.pop("sources"))
    return Device(**(data | {"links": links, "tile": tile, "sources": sources}))
