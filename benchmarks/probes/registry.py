"""All probes by name."""

from __future__ import annotations

from benchmarks.probes import convolutions
from benchmarks.probes.probe import Probe

PROBES: dict[str, Probe] = {module.PROBE.name: module.PROBE for module in (convolutions,)}
