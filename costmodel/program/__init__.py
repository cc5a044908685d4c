"""What of a program the cost model reads: op traits, dataflow, sharding units, contractions."""

from __future__ import annotations
