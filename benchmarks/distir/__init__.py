"""DistIR's evaluation (sections 5.1 to 5.3) on virtual devices: simulated against executed."""

from __future__ import annotations
