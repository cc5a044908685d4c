"""What a caller asks for, from text to a checked record."""

from __future__ import annotations
