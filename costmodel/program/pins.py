"""Layouts that are given and axes that are forbidden, as bits of mesh axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Masks = tuple[int, ...]
"""For each dimension the axes on it: bit a is mesh axis number a."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What no state may change.

    `values` and `uses` give values at their definition, and uses, a layout once and for all;
    `forbidden` are axes that a value is never sharded over.
    """

    values: Mapping[int, Masks] = field(default_factory=dict)
    uses: Mapping[int, Masks] = field(default_factory=dict)
    forbidden: Mapping[int, int] = field(default_factory=dict)


NO_PINS = Pins()
