"""Predicted against compiled: memory, collectives and time over many (model, mesh, plan) cases."""

from __future__ import annotations
