"""Arithmetic of contractions, from their shapes."""

from __future__ import annotations

import math

from analysis.program import Program
from costmodel.devices import Device
from costmodel.roles import Role, role


def contraction_flops(program: Program, op: int) -> float:
    """Multiply-adds times two of one run of a contraction, unsharded."""
    uses, values = program.uses_of(op), program.values_of(op)
    result = math.prod(program.shape(values[0]))
    if program.kind(op) == "stablehlo.convolution":
        kernel = program.shape(program.sources[uses[1]])
        return 2.0 * result * math.prod(kernel) / _output_features(program, op, kernel)
    return 2.0 * math.prod(program.factor_size[list(program.factors_of(op))].tolist())


def _output_features(program: Program, op: int, kernel: tuple[int, ...]) -> int:
    """The kernel's dimension that shares a name with the result but not with the input."""
    uses = program.uses_of(op)
    result = set(program.def_names(program.values_of(op)[0]).tolist())
    names = program.use_names(uses[1]).tolist()
    shared = [
        size for name, size in zip(names, kernel, strict=True) if name in result and name >= 0
    ]
    return shared[0] if shared else 1


BATCH, LEFT, RIGHT, CONTRACTED = range(4)
"""Which operands of a matrix product a factor stands in: both and the result, or as named."""


def product_sides(program: Program, op: int) -> tuple[tuple[int, int], ...]:
    """(side, size) of each factor of a matrix product; nothing for other contractions."""
    if program.kind(op) not in ("stablehlo.dot_general", "stablehlo.dot"):
        return ()
    left, right = (set(program.use_names(use).tolist()) for use in program.uses_of(op))
    made = set(program.def_names(program.values_of(op)[0]).tolist())
    sides = {
        (True, True, True): BATCH,
        (True, True, False): CONTRACTED,
        (True, False, True): LEFT,
        (False, True, True): RIGHT,
    }
    return tuple(
        (sides.get((name in left, name in right, name in made), BATCH), size)
        for name, size in zip(
            program.factors_of(op),
            program.factor_size[list(program.factors_of(op))].tolist(),
            strict=True,
        )
    )


def contraction_seconds(program: Program, device: Device) -> dict[int, float]:
    """For each contraction the seconds that one device needs for all of it."""
    roles = [role(name) for name in program.names]
    seconds = {}
    for op in range(program.ops):
        if roles[program.op_name[op]] is Role.CONTRACTION:
            dtype = program.dtype(program.sources[program.uses_of(op)[0]])
            peak = device.flops.get(_family(dtype), device.flops["f32"])
            seconds[op] = contraction_flops(program, op) / (peak * device.matmul_efficiency)
    return seconds


def _family(dtype: str) -> str:
    if dtype.startswith("complex"):
        return "f32"
    if dtype in ("i8", "ui8", "i4", "ui4"):
        return "i8"
    return dtype if dtype in ("bf16", "f16", "f32", "f64") else "f32" if "f8" not in dtype else "i8"
