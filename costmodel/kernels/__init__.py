"""The compiled kernels that price one state."""

from __future__ import annotations
