"""What belongs to a compiler: every constant and flag with its source and the probe behind it."""

from __future__ import annotations
