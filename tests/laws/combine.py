"""Partial results of devices put together by the op's own combiner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.laws.indexed import integers
from tests.laws.layout import Array, Grid, Shards
from tests.laws.localop import run_local

Combiner = Callable[[Any], Any]

_COMBINERS: dict[str, Combiner] = {
    "stablehlo.add": lambda stack: stack.sum(axis=0, dtype=stack.dtype),
    "stablehlo.maximum": lambda stack: stack.max(axis=0),
    "stablehlo.minimum": lambda stack: stack.min(axis=0),
    "stablehlo.multiply": lambda stack: stack.prod(axis=0, dtype=stack.dtype),
    "stablehlo.and": np.bitwise_and.reduce,
    "stablehlo.or": np.bitwise_or.reduce,
    "stablehlo.xor": np.bitwise_xor.reduce,
}
_SUMMED = frozenset({"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.gather"})


def body_of(op: Any) -> str | None:
    """The one op of a reducer's body, or None when it is not as simple as that."""
    if not op.regions:
        return None
    block = op.regions[0].blocks[0]
    inner = [view.operation for view in block.operations]
    if len(inner) != 2 or set(inner[0].operands) != set(block.arguments):
        return None
    return str(inner[0].name)


def identity(body: str, dtype: np.dtype[Any]) -> Array | None:
    """The value that leaves every other as it is."""
    match body:
        case "stablehlo.add" | "stablehlo.or" | "stablehlo.xor":
            return np.zeros((), dtype)
        case "stablehlo.multiply":
            return np.ones((), dtype)
        case "stablehlo.and":
            return np.array(True) if dtype.kind == "b" else np.array(-1, dtype)
        case "stablehlo.maximum":
            return np.array(_lowest(dtype), dtype)
        case "stablehlo.minimum":
            return np.array(-_lowest(dtype) if dtype.kind == "f" else np.iinfo(dtype).max, dtype)
        case _:
            return None


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def combine(op: Any, partial: list[Shards], axes: list[str], grid: Grid) -> list[Shards]:
    """All-reduce: `partial[r][device]` are result r's parts; the same form comes back."""
    found = [list(shards) for shards in partial]
    for group in grid.groups(axes):
        stacks = [np.stack([shards[device] for device in group]) for shards in partial]
        for result, whole in enumerate(_together(op, stacks)):
            for device in group:
                found[result][device] = whole
    return found


def _together(op: Any, stacks: list[Array]) -> list[Array]:
    name = "stablehlo.add" if op.name in _SUMMED else body_of(op)
    if name in _COMBINERS:
        return [np.asarray(_COMBINERS[name](stack)) for stack in stacks]
    assert op.name == "stablehlo.reduce", f"no combiner for {op.name}"
    return _reduce_again(op, stacks)


def _reduce_again(op: Any, stacks: list[Array]) -> list[Array]:
    """The reducer itself over the stacked partial results, element by element.

    A partial result holds the initial value already, so it serves as the first element here.
    """
    count = len(stacks)
    results = [np.empty_like(stack[0]) for stack in stacks]
    for place in np.ndindex(stacks[0].shape[1:]):
        column = [stack[(slice(None), *place)] for stack in stacks]
        rest = [c[1:] for c in column]
        first = [np.asarray(c[0]) for c in column]
        changes = {"dimensions": integers([0])}
        out = run_local(op, [*rest, *first], [()] * count, changes)
        for result, value in zip(results, out, strict=True):
            result[place] = value
    return results
