"""Writes a plan into the module: PartitionSpecs, Shardy annotations, jax.export artifacts."""

from __future__ import annotations
