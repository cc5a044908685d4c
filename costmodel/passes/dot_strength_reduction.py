"""Batches of products of one row or column are multiplied and added up on the vector unit.

XLA's algebraic simplifier does that where one operand has no dimension of its own, or only of size
1 (`dot_strength_reduction`). Whether it is so depends on the sizes that a state gives the operands:
the kernels see it (`kernels/compute.py`).
"""

from __future__ import annotations

from toast.costmodel.compilers.rules import DotStrengthReductionRules
from toast.costmodel.hardware.devices import Device


def reducing_seconds(device: Device, rules: DotStrengthReductionRules) -> float:
    """Seconds for each element that is multiplied and added up; 0 where nothing is reduced so."""
    return 1.0 / device.element_rate if rules.reduces_rows else 0.0
