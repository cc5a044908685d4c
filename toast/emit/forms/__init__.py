"""The forms in which a plan is written, from annotations to the program of one device."""

from __future__ import annotations
