"""Concrete inputs: few, small, and varied enough that a wrong combine does not fit by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.shardcombine.numbers import Array, dtype_of, highest, is_exact, lowest
from toast.analysis.shardcombine.opcopy import OpCopy

SETS = 3
"""Sets of inputs per op; a combine has to fit all of them."""
_ACCUMULATORS = {
    "stablehlo.reduce": lambda count: range(count // 2, count),
    "stablehlo.reduce_window": lambda count: range(count // 2, count),
    "stablehlo.select_and_scatter": lambda count: range(count - 1, count),
    "stablehlo.scatter": lambda count: range(max(1, (count - 1) // 2)),
}
"""Operands that the op adds its results to, once: they start as the identity of its body."""
_SMALL_INTEGERS = 4
_TRUTHS = (0.5, 0.15, 0.85)
"""How many booleans are true in each set: `any` and `all` of even odds would be foregone."""


def make_inputs(op: OpCopy) -> list[list[Array]]:
    """`SETS` lists of arrays for the operands of `op`; the same ones every time."""
    dtypes = op.dtypes(op.op.operands)
    fixed = _accumulators(op, dtypes)
    found: list[list[Array]] = []
    for number in range(SETS):
        rng = np.random.default_rng(number)
        limit = _SMALL_INTEGERS if number == 0 else max(op.operands[0], default=_SMALL_INTEGERS)
        arrays: list[Array] = []
        for index, (shape, dtype) in enumerate(zip(op.operands, dtypes, strict=True)):
            if index in fixed:
                arrays.append(np.full(shape, fixed[index], dtype_of(dtype)))
            else:
                arrays.append(_random(rng, shape, dtype, limit, number))
        found.append(arrays)
    return found


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, limit: int, number: int
) -> Array:
    kind = dtype_of(dtype)
    if dtype == "i1":
        return np.asarray(rng.random(shape) < _TRUTHS[number])
    if is_exact(dtype):
        return rng.integers(0, max(2, limit), shape).astype(kind)
    values: Any = rng.uniform(0.25, 2.0, shape)
    if number > 0:
        values = values * rng.choice([-1.0, 1.0], shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.uniform(0.25, 2.0, shape)
    return np.asarray(values).astype(kind)


def _accumulators(op: OpCopy, dtypes: tuple[str, ...]) -> dict[int, Any]:
    positions = _ACCUMULATORS.get(op.name)
    if positions is None:
        return {}
    body = op.op.regions[-1].blocks[0].operations
    name = body[0].operation.name if len(body) == 2 else ""
    return {
        index: _identity(name, dtypes[index])
        for index in positions(len(dtypes))
        if _identity(name, dtypes[index]) is not None
    }


def _identity(body: str, dtype: str) -> Any:
    """What the body's op leaves other values unchanged with, None when it is not known."""
    match body:
        case "stablehlo.add" | "stablehlo.or" | "stablehlo.xor":
            return 0
        case "stablehlo.multiply":
            return 1
        case "stablehlo.and":
            return True if dtype == "i1" else highest(dtype)
        case "stablehlo.maximum":
            return lowest(dtype)
        case "stablehlo.minimum":
            return highest(dtype)
        case _:
            return None
