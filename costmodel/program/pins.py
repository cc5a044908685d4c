"""Layouts that are given and axes that are forbidden, by numbers of mesh axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Axes = tuple[int, ...]
"""Numbers of mesh axes, from the first to the last on a dimension."""
Layout = tuple[Axes, ...]
"""For each dimension the axes on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What no state may change.

    `values` and `uses` give values at their definition, and uses, a layout once and for all;
    `forbidden` are axes that a value is never sharded over, as bits.
    """

    values: Mapping[int, Layout] = field(default_factory=dict)
    uses: Mapping[int, Layout] = field(default_factory=dict)
    forbidden: Mapping[int, int] = field(default_factory=dict)


NO_PINS = Pins()
