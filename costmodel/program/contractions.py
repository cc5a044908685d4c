"""Arithmetic of contractions, from their shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.hardware.devices import Device
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.op_traits import Role, role


def contraction_flops(program: Program, op: int) -> float:
    """Multiply-adds times two of one run of a contraction, unsharded."""
    uses, values = program.uses_of(op), program.values_of(op)
    result = math.prod(program.shape(values[0]))
    if program.kind(op) == "stablehlo.convolution":
        filter_shape = program.shape(program.sources[uses[1]])
        return 2.0 * result * math.prod(filter_shape) / _output_features(program, op, filter_shape)
    return 2.0 * math.prod(program.factor_size[list(program.factors_of(op))].tolist())


def _output_features(program: Program, op: int, filter_shape: tuple[int, ...]) -> int:
    """The filter's dimension that shares a name with the result but not with the input."""
    uses = program.uses_of(op)
    result = set(program.def_names(program.values_of(op)[0]).tolist())
    names = program.use_names(uses[1]).tolist()
    shared = [
        size for name, size in zip(names, filter_shape, strict=True) if name in result and name >= 0
    ]
    return shared[0] if shared else 1


BATCH, LEFT, RIGHT, CONTRACTED = range(4)
"""Which operands of a matrix product a factor stands in: both and the result, or as named."""


AS_STORED, ROUNDED, AS_GIVEN = range(3)
"""How a value is moved: as it lies in memory, an f32 rounded to 16 bits as it is written, or as the
program is given it, before it is brought into tiles."""
WIDE, NARROW = 4.0, 2.0
"""Bytes of an element as a matrix unit makes it, and as it takes it; what is stored narrower than
it is made is rounded."""
WORD = 4.0
"""Bytes that pass the vector unit at once."""
Sides = tuple[tuple[int, int], ...]
"""(side, size) of each factor of a contraction."""


def product_sides(program: Program) -> dict[int, Sides]:
    """The sides of the factors of every matrix product, by op; other contractions have none."""
    return sides_of(program, program.ops_named("stablehlo.dot_general", "stablehlo.dot"))


def sides_of(program: Program, contractions: Sequence[int]) -> dict[int, Sides]:
    """The sides of the factors of these contractions of two operands, by op."""
    ops = np.array(contractions, dtype=np.int64)
    in_left, in_right, made = (np.zeros(len(program.factor_size), dtype=np.bool_) for _ in range(3))
    starts = program.op_uses[ops]
    for flags, dims, names, first in (
        (in_left, program.use_dims, program.use_name, starts),
        (in_right, program.use_dims, program.use_name, starts + 1),
        (made, program.value_dims, program.dim_name, program.op_values[ops]),
    ):
        found = names[spans(dims[first], dims[first + 1] - dims[first])]
        flags[found[found >= 0]] = True
    sides = np.full(len(made), BATCH)
    for side, *there in (
        (CONTRACTED, True, True, False),
        (LEFT, True, False, True),
        (RIGHT, False, True, True),
    ):
        sides[(in_left == there[0]) & (in_right == there[1]) & (made == there[2])] = side
    first, end = program.op_factors[ops], program.op_factors[ops + 1]
    factors = spans(first, end - first)
    pairs = list(zip(sides[factors].tolist(), program.factor_size[factors].tolist(), strict=True))
    bounds = [0, *np.cumsum(end - first).tolist()]
    return {
        op: tuple(pairs[a:b]) for op, (a, b) in zip(ops.tolist(), pairwise(bounds), strict=True)
    }


def contraction_seconds(program: Program, device: Device) -> dict[int, float]:
    """For each contraction the seconds that one device needs for all of it."""
    products = {name for name in program.names if role(name) is Role.CONTRACTION}
    seconds, known = {}, dict[int, float]()
    signatures = program.op_signature
    for op in program.ops_named(*products):
        signature = int(signatures[op])
        if signature not in known:
            dtype = program.dtype(program.sources[program.uses_of(op)[0]])
            peak = device.flops.get(_family(dtype), device.flops["f32"])
            known[signature] = contraction_flops(program, op) / (peak * device.matmul_efficiency)
        seconds[op] = known[signature]
    return seconds


def _family(dtype: str) -> str:
    if dtype.startswith("complex"):
        return "f32"
    if dtype in ("i8", "ui8", "i4", "ui4"):
        return "i8"
    return dtype if dtype in ("bf16", "f16", "f32", "f64") else "f32" if "f8" not in dtype else "i8"
