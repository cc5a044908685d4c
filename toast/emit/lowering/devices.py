"""The devices of a mesh by number: row-major over its axes, the first axis the slowest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from toast.costmodel.network.mesh import Mesh
from toast.plans.plan import Spec

Shape = tuple[int, ...]


@dataclass(slots=True)
class Devices:
    """Which devices a collective joins, and what of a tensor each of them holds."""

    mesh: Mesh
    sizes: dict[str, int] = field(init=False)
    strides: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = {axis.name: axis.size for axis in self.mesh.axes}
        self.strides = {}
        stride = self.mesh.devices
        for axis in self.mesh.axes:
            stride //= axis.size
            self.strides[axis.name] = stride

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.mesh.devices

    def parts(self, axes: Iterable[str]) -> int:
        """Into how many parts axes split a dimension."""
        return math.prod(self.sizes[axis] for axis in axes)

    def part(self, axes: Sequence[str], device: int) -> int:
        """Which part of a dimension over `axes`, major first, a device holds."""
        index = 0
        for axis in axes:
            index = index * self.sizes[axis] + device // self.strides[axis] % self.sizes[axis]
        return index

    def local(self, shape: Sequence[int], spec: Spec) -> Shape:
        """The shape of what a device holds."""
        return tuple(n // self.parts(axes) for n, axes in zip(shape, spec, strict=True))

    def groups(self, axes: Sequence[str]) -> list[list[int]]:
        """Devices that differ along `axes` only, each group in the order of the axes."""
        steps = [self.strides[axis] for axis in axes]
        ranges = [range(self.sizes[axis]) for axis in axes]
        offsets = [
            sum(place * step for place, step in zip(places, steps, strict=True))
            for places in product(*ranges)
        ]
        first = [device for device in range(self.count) if not self.part(axes, device)]
        return [[device + offset for offset in offsets] for device in first]

    def neighbours(self, axes: Sequence[str], distance: int) -> list[tuple[int, int]]:
        """(source, target): each device sends to the one so many parts further, if there is one."""
        found = []
        for group in self.groups(axes):
            for place, device in enumerate(group):
                if 0 <= place + distance < len(group):
                    found.append((device, group[place + distance]))
        return found

    def mirrored(self, axes: Sequence[str]) -> list[tuple[int, int]]:
        """(source, target): the first part goes where the last one is, and so on."""
        return [
            pair for group in self.groups(axes) for pair in zip(group, reversed(group), strict=True)
        ]

    def permuted(self, before: Spec, after: Spec) -> list[tuple[int, int]]:
        """(source, target): who has what each device is to hold, for as many parts on each side."""
        holders: dict[tuple[int, ...], list[int]] = {}
        for device in range(self.count):
            holders.setdefault(tuple(self.part(on, device) for on in before), []).append(device)
        found = []
        for target in range(self.count):
            wanted = holders[tuple(self.part(on, target) for on in after)]
            found.append((wanted.pop(0), target))
        return found
