"""Child processes: how they are run, what they say, how they ended."""

from __future__ import annotations
