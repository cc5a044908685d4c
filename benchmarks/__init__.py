"""Programs that measure; every number in the documentation comes from one of them."""

from __future__ import annotations
