"""The ways to distribute a step that are compared: DistIR's D/T/P/K (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MICROBATCHES = (2, 4, 8, 16, 32)
DEVICES = 8


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """Degrees of data, tensor and pipeline parallelism, and in how many microbatches."""

    data: int
    tensor: int
    stages: int
    microbatches: int

    def __str__(self) -> str:
        return f"{self.data}/{self.tensor}/{self.stages}/{self.microbatches}"

    @property
    def devices(self) -> int:
        """How many devices it uses."""
        return self.data * self.tensor * self.stages

    @property
    def mesh(self) -> str | None:
        """The mesh of each stage; None for one device."""
        axes = [("data", self.data), ("model", self.tensor)]
        return ",".join(f"{name}={size}" for name, size in axes if size > 1) or None


def parse_way(text: str) -> Way:
    """A way from its name."""
    return Way(*map(int, text.split("/")))


def ways(
    batch: int,
    layers: int,
    devices: int = DEVICES,
    microbatches: Sequence[int] = MICROBATCHES,
) -> Iterator[Way]:
    """All powers of two that use all devices; several microbatches where there are stages."""
    for stages in _powers(devices):
        for data in _powers(devices // stages):
            for parts in microbatches if stages > 1 else (1,):
                way = Way(data, devices // stages // data, stages, parts)
                if stages <= layers and batch % (parts * data) == 0:
                    yield way


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        power *= 2
