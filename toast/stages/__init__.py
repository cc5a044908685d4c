"""A step cut into the stages of a pipeline, and run as one (DistIR, sections 2.2 and 5)."""

from __future__ import annotations
