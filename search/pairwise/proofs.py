"""What a bound on every choice can be proved by."""

from __future__ import annotations

from typing import Literal

Proof = Literal["branch and bound", "linear relaxation", "prices of memory"]
"""The bound of an integer program, that of its linear relaxation, or what forests of edges cost
at least where memory has a price and no limit."""

BRANCHED: Proof = "branch and bound"
RELAXED: Proof = "linear relaxation"
PRICED: Proof = "prices of memory"
