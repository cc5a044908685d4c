"""A program whose batch runs in parts, one after the other: time as an axis."""

from __future__ import annotations
