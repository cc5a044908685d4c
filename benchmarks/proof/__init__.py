"""Whether the plans of the models compute what the models compute."""

from __future__ import annotations
