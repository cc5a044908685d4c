"""What colours, layers, ops and values are called, for people."""

from __future__ import annotations
