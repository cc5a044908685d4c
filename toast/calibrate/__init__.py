"""Measures the machine at hand and writes its device file."""

from __future__ import annotations
