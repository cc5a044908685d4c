"""The mesh, the networks under its axes, and what a collective over them costs."""

from __future__ import annotations
