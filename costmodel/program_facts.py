"""What the cost model knows of a program that other rooms read too."""

from __future__ import annotations

from toast.costmodel.program.arrays import spans
from toast.costmodel.program.buffers import Slot, loop_slots
from toast.costmodel.program.dataflow import Bools, named
from toast.costmodel.program.distinct import distinct_rows
from toast.costmodel.program.pins import Layout, Pins
from toast.costmodel.program.sharding_units import Marks

__all__ = [
    "Bools",
    "Layout",
    "Marks",
    "Pins",
    "Slot",
    "distinct_rows",
    "loop_slots",
    "named",
    "spans",
]
