"""What the analysis finds in a module, for people and machines."""

from __future__ import annotations
