"""Which half an architecture belongs to: a hash of its name decides, before anything is compiled.

The file is kept, so that a change of it shows; `python -m benchmarks.zoo split` writes it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

Half = Literal["tuning", "held-out"]
SPLIT = Path(__file__).parent / "data" / "split.json"
HELD_OUT_PERCENT = 60


def number_of(name: str) -> int:
    """A number that looks drawn by lot and is the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def half_by_name(architecture: str) -> Half:
    """The half that the hash of a name gives."""
    return "held-out" if number_of(architecture) % 100 < HELD_OUT_PERCENT else "tuning"


def read_split(path: Path = SPLIT) -> Mapping[str, Half]:
    """The half of every architecture, as it is kept."""
    halves: dict[str, Half] = json.loads(path.read_text())
    return halves


def write_split(architectures: Iterable[str], path: Path = SPLIT) -> Mapping[str, Half]:
    """Keep the half of every architecture."""
    halves = {name: half_by_name(name) for name in sorted(architectures)}
    path.write_text(json.dumps(halves, indent=1) + "\n")
    return halves
