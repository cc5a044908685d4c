"""Layouts of a value and of an op over a mesh, and what changing from one to another costs.

A layout is a row of an array [layouts, axes]: for each axis of the mesh the dimension (or the
factor of an op) that is split over it, or -1. Costs are whole numbers, as in the contest.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toast.analysis.program import Floats, Ints

Flags = NDArray[np.bool_]
START = 400.0
"""What any collective costs beside its bytes."""
MAX_FACTORS = 5
"""An op is split along so many factors, the largest ones."""


@dataclass(frozen=True)
class Links:
    """The axes of a mesh, by their number of devices; a byte over a later axis costs less."""

    axes: tuple[int, ...]

    @cached_property
    def sizes(self) -> Floats:
        """Devices of each axis."""
        return np.array(self.axes, dtype=np.float64)

    @cached_property
    def byte(self) -> Floats:
        """What a byte costs over each axis."""
        found: Floats = 1.0 / (1.0 + np.arange(len(self.axes), dtype=np.float64))
        return found

    def layouts(self, sizes: Sequence[int]) -> Ints:
        """All layouts of dimensions (or factors) of these sizes that split them evenly."""
        largest = sorted(range(len(sizes)), key=lambda place: -sizes[place])[:MAX_FACTORS]
        places = [-1, *sorted(place for place in largest if sizes[place] > 1)]
        rows = itertools.product(places, repeat=len(self.axes))
        return np.array([row for row in rows if self._even(row, sizes)], dtype=np.int64)

    def _even(self, row: tuple[int, ...], sizes: Sequence[int]) -> bool:
        parts = [1] * len(sizes)
        for axis, place in enumerate(row):
            if place >= 0:
                parts[place] *= self.axes[axis]
        return all(size % part == 0 for size, part in zip(sizes, parts, strict=True))

    def shards(self, layouts: Ints) -> Floats:
        """Into how many parts each layout splits a value."""
        parts: Floats = np.where(layouts >= 0, self.sizes, 1.0).prod(axis=1)
        return parts

    def reduce(self, axes: Flags, local: Floats) -> Floats:
        """Adding up partial sums of `local` bytes over the marked `axes` [layouts, axes]."""
        factor = 2 * (self.sizes - 1) / self.sizes * self.byte
        cost: Floats = (axes * (START + local[:, None] * factor)).sum(axis=1)
        return cost

    def gather(self, axes: Flags, local: Floats) -> Floats:
        """Collecting what is split over the marked `axes`, `local` bytes once it is together."""
        return self.reduce(axes, local) / 2

    def change(self, source: Ints, target: Ints, size: float) -> Floats:
        """[layouts of the source, of the target]: moving a value of `size` bytes."""
        held, wanted = source[:, None, :], target[None, :, :]
        split = np.where(wanted >= 0, self.sizes, 1.0).prod(axis=2)
        shared = np.where((held >= 0) & (wanted >= 0), self.sizes, 1.0).prod(axis=2)
        gathered = (held >= 0) & (wanted < 0)
        moved = (held >= 0) & (wanted >= 0) & (held != wanted)
        part = (self.sizes - 1) / self.sizes * self.byte
        gathers = (gathered * part).sum(axis=2) * size / split
        moves = (moved * part).sum(axis=2) * size / shared
        cost: Floats = np.rint(gathers + moves + START * (gathered | moved).sum(axis=2))
        return cost
