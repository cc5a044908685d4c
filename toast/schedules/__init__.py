"""In which order the stages of a pipeline work, and a simulation of that (DistIR, section 3.3)."""

from __future__ import annotations
