"""Lowers a plan to explicit collectives, and to the program of one device."""

from __future__ import annotations
