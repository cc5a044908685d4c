"""Engines on the nodes of a Ray cluster (the extra `ray`; docs/many-machines.md)."""

from __future__ import annotations
