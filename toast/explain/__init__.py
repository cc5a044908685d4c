"""Where the time and memory of a plan go, and what keeps it from fitting."""

from __future__ import annotations
