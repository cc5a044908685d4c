"""Programs for people who work on the project; no part of the distribution."""

from __future__ import annotations
