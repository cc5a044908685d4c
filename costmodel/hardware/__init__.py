"""Chips as data: their files, their catalogue, and the units people write sizes in."""

from __future__ import annotations
