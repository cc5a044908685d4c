"""In which band nine of ten held-out programs lay: compiled figures over predicted ones.

`held_out.toml` is made by `python -m benchmarks.zoo bands` of the held-out half of the zoo.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, get_args

from toast.costmodel.hardware.devices import Device

Figure = Literal["step", "compute", "communication", "room", "pressed"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
ALL = "all"
"""Of chips or of kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Nine of ten programs took between `low` and `high` times what was predicted.

    `chips` is a chip, a platform or `ALL`, `kind` one of programs or `ALL`: whose the cases are.
    """

    figure: Figure
    chips: str
    kind: str
    cases: int
    programs: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """The spreads of a file. Those of memory say nothing of programs below `least_bytes`."""

    spreads: Mapping[tuple[str, str, str], Spread]
    least_bytes: int

    def find(self, figure: Figure, device: Device, kind: str) -> Spread | None:
        """The spread of the narrowest group that has enough cases; None where none has.

        First what was compiled for the chip, of this kind, then of all; then for its platform,
        of this kind and of all; then everything.
        """
        groups = [(chips, one) for chips in groups_of(device) for one in (kind, ALL)]
        found = (self.spreads.get((*group, figure)) for group in groups)
        return next((spread for spread in found if spread is not None), None)


def groups_of(device: Device) -> tuple[str, str, str]:
    """The chips whose cases may speak for a device, the nearest first."""
    return (device.generation, device.platform, ALL)


def read_spreads(text: str) -> SpreadTable:
    """The spreads of a file's text: tables by chips, kind and figure."""
    data = tomllib.loads(text)
    found = {}
    for chips, kinds in data["chips"].items():
        for kind, figures in kinds.items():
            for figure, row in figures.items():
                spread = Spread(figure=figure, chips=chips, kind=kind, **row)
                found[(chips, kind, figure)] = spread
    return SpreadTable(found, int(data["least_bytes"]))


@cache
def held_out() -> SpreadTable:
    """The spreads that are shipped."""
    path = resources.files("toast.costmodel.bands").joinpath("held_out.toml")
    return read_spreads(path.read_text(encoding="utf-8"))
