"""Scanned layers as a pipeline in one module: stages along an axis of the mesh."""

from __future__ import annotations
