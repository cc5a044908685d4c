"""The steps of a random chain: each draws one op on a value that is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.laws.chains import Text, Value, tensor

Draw = Callable[[Any], Any]
Step = Callable[[Draw, Text, Value], Value | None]

SIZES = (1, 2, 4, 8, 3, 6)
MAX_ELEMENTS = 2048
ADD = "{^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.NAME %x, %y : tensor<f32>\n"
RETURN = "stablehlo.return %c : tensor<f32>}"


def body(name: str) -> str:
    """A region that combines two scalars."""
    return (ADD + RETURN).replace("NAME", name)


def listed(values: list[int] | tuple[int, ...]) -> str:
    """Integers as MLIR lists them."""
    return f"[{', '.join(map(str, values))}]"


def array(values: list[int]) -> str:
    """The attribute that lists integers."""
    return f"array<i64: {', '.join(map(str, values))}>"


def dim_of(draw: Draw, value: Value) -> int | None:
    """One dimension of a value."""
    return int(draw(st.integers(0, len(value.shape) - 1))) if value.shape else None


def unary(draw: Draw, text: Text, x: Value) -> Value:
    name = draw(st.sampled_from(("negate", "abs")))
    return text.add(f"stablehlo.{name} {x.name} : {tensor(x.shape)}", x.shape, x.bound, x)


def binary(draw: Draw, text: Text, x: Value) -> Value:
    others = [value for value in text.values if value.shape == x.shape]
    y = draw(st.sampled_from(others))
    name = draw(st.sampled_from(("add", "subtract", "maximum", "multiply")))
    bound = x.bound * y.bound if name == "multiply" else x.bound + y.bound
    line = f"stablehlo.{name} {x.name}, {y.name} : {tensor(x.shape)}"
    return text.add(line, x.shape, bound, x, y)


def transpose(draw: Draw, text: Text, x: Value) -> Value | None:
    if len(x.shape) < 2:
        return None
    order = draw(st.permutations(range(len(x.shape))))
    shape = tuple(x.shape[d] for d in order)
    line = f"stablehlo.transpose {x.name}, dims = {listed(order)} : ({tensor(x.shape)})"
    return text.add(f"{line} -> {tensor(shape)}", shape, x.bound, x)


def with_own_transpose(draw: Draw, text: Text, x: Value) -> Value | None:
    """Adds a square value to its transpose: one colour twice."""
    pairs = [
        (i, j)
        for i in range(len(x.shape))
        for j in range(i)
        if x.shape[i] == x.shape[j] and x.shape[i] > 1
    ]
    if not pairs:
        return None
    i, j = draw(st.sampled_from(pairs))
    order = list(range(len(x.shape)))
    order[i], order[j] = j, i
    kind = tensor(x.shape)
    turned = text.raw(f"stablehlo.transpose {x.name}, dims = {listed(order)} : ({kind}) -> {kind}")
    line = f"stablehlo.add {x.name}, {turned} : {kind}"
    return text.add(line, x.shape, 2 * x.bound, x)


def reshape(draw: Draw, text: Text, x: Value) -> Value | None:
    """Merges, splits, drops or inserts dimensions; sometimes anything of the same size."""
    shape = list(x.shape)
    kind = draw(st.sampled_from(("merge", "split", "one", "any")))
    if kind == "merge" and len(shape) >= 2:
        d = draw(st.integers(0, len(shape) - 2))
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    elif kind == "split" and shape and len(shape) < 5:
        d = draw(st.integers(0, len(shape) - 1))
        parts = [n for n in range(1, shape[d] + 1) if shape[d] % n == 0]
        first = draw(st.sampled_from(parts))
        shape[d : d + 1] = [first, shape[d] // first]
    elif kind == "one":
        if 1 in shape and draw(st.booleans()):
            shape.remove(1)
        elif len(shape) < 5:
            shape.insert(draw(st.integers(0, len(shape))), 1)
    else:
        shape = _refactored(draw, math.prod(shape))
    line = f"stablehlo.reshape {x.name} : ({tensor(x.shape)}) -> {tensor(tuple(shape))}"
    return text.add(line, tuple(shape), x.bound, x)


def _refactored(draw: Draw, left: int) -> list[int]:
    shape = []
    for _ in range(draw(st.integers(1, 3))):
        parts = [n for n in range(1, left + 1) if left % n == 0]
        shape.append(draw(st.sampled_from(parts)))
        left //= shape[-1]
    return [*shape, left]


def broadcast(draw: Draw, text: Text, x: Value) -> Value | None:
    if len(x.shape) >= 4:
        return None
    place = draw(st.integers(0, len(x.shape)))
    size = draw(st.sampled_from(SIZES))
    shape = [*x.shape[:place], size, *x.shape[place:]]
    for d, n in enumerate(shape):
        if n == 1 and draw(st.booleans()):
            shape[d] = draw(st.sampled_from(SIZES))
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    dims = [d for d in range(len(shape)) if d != place]
    line = f"stablehlo.broadcast_in_dim {x.name}, dims = {listed(dims)} : ({tensor(x.shape)})"
    return text.add(f"{line} -> {tensor(tuple(shape))}", tuple(shape), x.bound, x)


def dot_general(draw: Draw, text: Text, x: Value) -> Value | None:
    """Contracts with itself, with another value or with a new argument."""
    if not x.shape:
        return None
    contracting = draw(st.integers(0, len(x.shape) - 1))
    batch = [d for d in range(len(x.shape)) if d != contracting and draw(st.integers(0, 3)) == 0]
    y, right, batch, rights = _partner(draw, text, x, contracting, batch)
    free = [d for d in range(len(x.shape)) if d not in (contracting, *batch)]
    rest = [d for d in range(len(y.shape)) if d not in (right, *rights)]
    shape = tuple([x.shape[d] for d in [*batch, *free]] + [y.shape[d] for d in rest])
    if math.prod(shape) > MAX_ELEMENTS or len(shape) > 5:
        return None
    batching = f"batching_dims = {listed(batch)} x {listed(rights)}, " if batch else ""
    line = (
        f"stablehlo.dot_general {x.name}, {y.name}, {batching}"
        f"contracting_dims = [{contracting}] x [{right}] : "
        f"({tensor(x.shape)}, {tensor(y.shape)}) -> {tensor(shape)}"
    )
    bound = x.bound * y.bound * x.shape[contracting]
    return text.add(line, shape, bound, x, y)


def _partner(
    draw: Draw, text: Text, x: Value, contracting: int, batch: list[int]
) -> tuple[Value, int, list[int], list[int]]:
    size = x.shape[contracting]
    others = [v for v in text.values if size in v.shape and math.prod(v.shape) <= 256]
    if others and draw(st.booleans()):
        y = draw(st.sampled_from(others))
        right = draw(st.sampled_from([d for d, n in enumerate(y.shape) if n == size]))
        kept: list[int] = []
        rights: list[int] = []
        for d in batch:
            fit = [
                e for e, n in enumerate(y.shape) if n == x.shape[d] and e not in (right, *rights)
            ]
            if fit:
                kept.append(d)
                rights.append(draw(st.sampled_from(fit)))
        return y, right, kept, rights
    columns = draw(st.sampled_from(SIZES))
    y = text.argument((*(x.shape[d] for d in batch), size, columns))
    return y, len(batch), batch, list(range(len(batch)))


def reduce(draw: Draw, text: Text, x: Value) -> Value | None:
    if not x.shape:
        return None
    dims = sorted(draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1, max_size=2)))
    name = draw(st.sampled_from(("add", "maximum", "minimum")))
    initial = text.constant({"add": 0, "maximum": -(2**21), "minimum": 2**21}[name])
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    count = math.prod(x.shape[d] for d in dims) if name == "add" else 1
    line = (
        f"stablehlo.reduce({x.name} init: {initial}) applies stablehlo.{name} across "
        f"dimensions = {listed(dims)} : ({tensor(x.shape)}, tensor<f32>) -> {tensor(shape)}"
    )
    return text.add(line, shape, x.bound * count, x)


def select(draw: Draw, text: Text, x: Value) -> Value:
    y = draw(st.sampled_from([value for value in text.values if value.shape == x.shape]))
    kind, truth = tensor(x.shape), tensor(x.shape, "i1")
    chosen = text.raw(f"stablehlo.compare GT, {x.name}, {y.name} : ({kind}, {kind}) -> {truth}")
    negated = text.raw(f"stablehlo.negate {y.name} : {kind}")
    line = f"stablehlo.select {chosen}, {x.name}, {negated} : {truth}, {kind}"
    return text.add(line, x.shape, max(x.bound, y.bound), x, y)


ELEMENTWISE: tuple[Step, ...] = (unary, binary, select)
SHAPING: tuple[Step, ...] = (transpose, with_own_transpose, reshape, reshape, broadcast)
CONTRACTING: tuple[Step, ...] = (dot_general, dot_general, reduce)
