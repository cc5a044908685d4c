"""Pipelines: a step cut into stages, each planned, and the schedule chosen by simulation."""

from __future__ import annotations
