"""The figures of the probes on disk: `data/PROBE.json`, for each target the figure of each case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
TARGETS = {
    "tpu-v5e": "tpu-v5e:2x4",
    "tpu-v5p": "tpu-v5p:2x2x2",
    "tpu-v3": "tpu-v3:2x2",
    "a100-40gb": "a100:8",
}
"""What is compiled for to learn of a device of the catalogue: eight of them."""


def golden(probe: str, case: str, device: str = "tpu-v5e") -> Any:
    """What the compiler for a device makes of a case of a probe.

    Raises KeyError where it was not compiled: `python -m benchmarks.probes run PROBE` does that.
    """
    return read_figures(probe, TARGETS[device])[case]


def read_figures(probe: str, target: str, folder: Path = DATA) -> dict[str, Any]:
    """The figure of each case of a probe that was compiled for a target."""
    return dict(_read(probe, folder).get(target, {}).get("figures", {}))


def keep_figures(
    probe: str, target: str, compiler: str, figures: Mapping[str, Any], folder: Path = DATA
) -> Path:
    """Put the figures of a target in the place of those that were there; returns the file."""
    known = _read(probe, folder)
    known[target] = {"compiler": compiler, "figures": dict(figures)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{probe}.json"
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return path


def _read(probe: str, folder: Path) -> dict[str, Any]:
    path = folder / f"{probe}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found
