"""Runs a sharded module against the unsharded one and compares the results."""

from __future__ import annotations
