"""Fourier transforms, which the matrix unit of a TPU computes.

A transform of a power of two takes so many steps, in each of which complex numbers are multiplied
with a matrix that fills a tile of the unit. One of another length is multiplied with the matrix of
all its waves. Real numbers are transformed as complex ones are.
"""

from __future__ import annotations

import math

from toast.analysis.program import Program
from toast.costmodel.compilers.rules import FourierTransformsRules
from toast.costmodel.hardware.devices import Device


def step_seconds(device: Device, rules: FourierTransformsRules) -> float:
    """Of one complex number, to multiply it with a row of a tile of the matrix unit."""
    peak = device.flops.get("bf16", device.flops["f32"]) * device.matmul_efficiency
    return 2.0 * rules.products * device.tile[1] / peak


def is_made_real(program: Program, op: int) -> bool:
    """Whether a transform makes more numbers than it takes, as one back to real numbers does."""
    made, taken = program.values_of(op)[0], program.sources[program.uses_of(op)[0]]
    return bool(program.elements[made] > program.elements[taken])


def steps_of(program: Program, op: int, tile: int) -> int:
    """How often a transform multiplies all of its numbers with a tile; 0 for all other ops."""
    count = int(program.op_transformed[op])
    if count == 0:
        return 0
    made, taken = program.values_of(op)[0], program.sources[program.uses_of(op)[0]]
    shape = program.shape(made if is_made_real(program, op) else taken)
    return sum(_steps(length, tile) for length in shape[-count:])


def _steps(length: int, tile: int) -> int:
    if length & (length - 1) == 0:
        return math.ceil((length.bit_length() - 1) / (tile.bit_length() - 1))
    return math.ceil(length / tile)
