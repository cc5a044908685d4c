"""Steps of a random chain that slice, pad, slide, look up and update."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.laws.chains import Text, Value, tensor
from tests.laws.steps import MAX_ELEMENTS, SIZES, Draw, Step, array, body, dim_of, listed


def concatenate(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None or 2 * math.prod(x.shape) > MAX_ELEMENTS:
        return None
    fitting = [
        v
        for v in text.values
        if len(v.shape) == len(x.shape)
        and all(v.shape[e] == x.shape[e] for e in range(len(x.shape)) if e != d)
        and v.shape[d] <= 2 * x.shape[d]
    ]
    y = draw(st.sampled_from(fitting))
    shape = (*x.shape[:d], x.shape[d] + y.shape[d], *x.shape[d + 1 :])
    line = (
        f"stablehlo.concatenate {x.name}, {y.name}, dim = {d} : "
        f"({tensor(x.shape)}, {tensor(y.shape)}) -> {tensor(shape)}"
    )
    return text.add(line, shape, max(x.bound, y.bound), x, y)


def slice_(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    start = draw(st.integers(0, x.shape[d] - 1))
    limit = draw(st.integers(start + 1, x.shape[d]))
    stride = draw(st.sampled_from((1, 1, 2)))
    shape = (*x.shape[:d], -(-(limit - start) // stride), *x.shape[d + 1 :])
    ranges = [f"0:{n}" for n in x.shape]
    ranges[d] = f"{start}:{limit}:{stride}"
    line = f"stablehlo.slice {x.name} [{', '.join(ranges)}] : ({tensor(x.shape)})"
    return text.add(f"{line} -> {tensor(shape)}", shape, x.bound, x)


def pad(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    low, high = draw(st.integers(-1, 3)), draw(st.integers(-1, 3))
    interior = draw(st.sampled_from((0, 0, 1)))
    size = x.shape[d] + (x.shape[d] - 1) * interior + low + high
    shape = (*x.shape[:d], size, *x.shape[d + 1 :])
    if size < 1 or math.prod(shape) > MAX_ELEMENTS:
        return None

    def at(number: int) -> str:
        return listed([number if e == d else 0 for e in range(len(x.shape))])

    fill = text.constant(1)
    line = (
        f"stablehlo.pad {x.name}, {fill}, low = {at(low)}, high = {at(high)}, "
        f"interior = {at(interior)} : ({tensor(x.shape)}, tensor<f32>) -> {tensor(shape)}"
    )
    return text.add(line, shape, max(x.bound, 1), x)


def reverse(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    line = f"stablehlo.reverse {x.name}, dims = [{d}] : {tensor(x.shape)}"
    return text.add(line, x.shape, x.bound, x)


def gather(draw: Draw, text: Text, x: Value) -> Value | None:
    """Looks up rows of one dimension."""
    d = dim_of(draw, x)
    count = draw(st.sampled_from(SIZES))
    if d is None or math.prod(x.shape) // x.shape[d] * count > MAX_ELEMENTS:
        return None
    indices = text.indices((count, 1), x.shape[d])
    rest = [n for e, n in enumerate(x.shape) if e != d]
    sizes = [1 if e == d else n for e, n in enumerate(x.shape)]
    shape = (count, *rest)
    numbers = (
        f"#stablehlo.gather<offset_dims = {listed(list(range(1, len(shape))))}, "
        f"collapsed_slice_dims = [{d}], start_index_map = [{d}], index_vector_dim = 1>"
    )
    line = (
        f'"stablehlo.gather"({x.name}, {indices}) {{dimension_numbers = {numbers}, '
        f"slice_sizes = {array(sizes)}}} : ({tensor(x.shape)}, {tensor((count, 1), 'i32')})"
    )
    return text.add(f"{line} -> {tensor(shape)}", shape, x.bound, x)


def batched_gather(draw: Draw, text: Text, x: Value) -> Value | None:
    """For each row of the first dimension other elements of the second."""
    if len(x.shape) != 2:
        return None
    count = draw(st.sampled_from(SIZES))
    shape = (x.shape[0], count)
    indices = text.indices((*shape, 1), x.shape[1])
    numbers = (
        "#stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], "
        "operand_batching_dims = [0], start_indices_batching_dims = [0], "
        "start_index_map = [1], index_vector_dim = 2>"
    )
    line = (
        f'"stablehlo.gather"({x.name}, {indices}) {{dimension_numbers = {numbers}, '
        f"slice_sizes = array<i64: 1, 1>}} : ({tensor(x.shape)}, {tensor((*shape, 1), 'i32')})"
    )
    return text.add(f"{line} -> {tensor(shape)}", shape, x.bound, x)


def scatter_add(draw: Draw, text: Text, x: Value) -> Value | None:
    """Adds rows of a new argument to rows of one dimension.

    What it adds to has no other use: XLA on the CPU scatters in place even where it has.
    """
    d = dim_of(draw, x)
    if d is None:
        return None
    count = draw(st.sampled_from(SIZES))
    rest = [n for e, n in enumerate(x.shape) if e != d]
    name = draw(st.sampled_from(("add", "maximum")))
    updates = text.argument((count, *rest))
    indices = text.indices((count, 1), x.shape[d])
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {listed(list(range(1, len(rest) + 1)))}, "
        f"inserted_window_dims = [{d}], scatter_dims_to_operand_dims = [{d}], "
        "index_vector_dim = 1>"
    )
    own = text.raw(f"stablehlo.negate {x.name} : {tensor(x.shape)}")
    kinds = f"{tensor(x.shape)}, {tensor((count, 1), 'i32')}, {tensor(updates.shape)}"
    line = (
        f'"stablehlo.scatter"({own}, {indices}, {updates.name}) ({body(name)}) '
        f"{{scatter_dimension_numbers = {numbers}}} : ({kinds}) -> {tensor(x.shape)}"
    )
    return text.add(line, x.shape, x.bound + count * 2, x, updates)


def dynamic_slice(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    size = draw(st.integers(1, x.shape[d]))
    starts = _starts(text, x, d, size)
    shape = (*x.shape[:d], size, *x.shape[d + 1 :])
    kinds = ", ".join([tensor(x.shape), *["tensor<i32>"] * len(x.shape)])
    line = f"stablehlo.dynamic_slice {x.name}, {starts}, sizes = {listed(shape)} : ({kinds})"
    return text.add(f"{line} -> {tensor(shape)}", shape, x.bound, x)


def dynamic_update_slice(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    size = draw(st.integers(1, x.shape[d]))
    update = text.argument((*x.shape[:d], size, *x.shape[d + 1 :]))
    starts = _starts(text, x, d, size)
    kinds = [tensor(x.shape), tensor(update.shape), *["tensor<i32>"] * len(x.shape)]
    line = (
        f"stablehlo.dynamic_update_slice {x.name}, {update.name}, {starts} : "
        f"({', '.join(kinds)}) -> {tensor(x.shape)}"
    )
    return text.add(line, x.shape, max(x.bound, update.bound), x, update)


def _starts(text: Text, x: Value, d: int, size: int) -> str:
    zero = text.raw("stablehlo.constant dense<0> : tensor<i32>")
    start = text.indices((), x.shape[d], x.shape[d] - size)
    return ", ".join(start if e == d else zero for e in range(len(x.shape)))


def convolution(draw: Draw, text: Text, x: Value) -> Value | None:
    """One spatial dimension, with strides, padding, dilation and feature groups."""
    if len(x.shape) != 3:
        return None
    batch, size, features = x.shape
    width = draw(st.integers(1, min(3, size)))
    stride = draw(st.sampled_from((1, 1, 2)))
    dilation = draw(st.sampled_from((1, 1, 2)))
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    groups = draw(st.sampled_from([g for g in (1, 1, 2, 4) if features % g == 0]))
    outer = groups * draw(st.sampled_from((1, 1, 2, 4)))
    places = ((size - 1) * dilation + 1 + low + high - width) // stride + 1
    shape = (batch, places, outer)
    if places < 1 or math.prod(shape) > MAX_ELEMENTS:
        return None
    filters = text.argument((width, features // groups, outer))
    window = f"stride = [{stride}], pad = [[{low}, {high}]], lhs_dilate = [{dilation}]"
    line = (
        f"stablehlo.convolution({x.name}, {filters.name}) dim_numbers = "
        f"[b, 0, f]x[0, i, o]->[b, 0, f], window = {{{window}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
        f"({tensor(x.shape)}, {tensor(filters.shape)}) -> {tensor(shape)}"
    )
    bound = x.bound * filters.bound * width * features
    return text.add(line, shape, bound, x, filters)


def reduce_window(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    rank, size = len(x.shape), x.shape[d]
    width = draw(st.sampled_from(sorted({1, min(2, size), min(3, size), size})))
    stride = draw(st.sampled_from((1, 2, width)))
    low = draw(st.sampled_from((0, 1, width - 1)))
    places = (size + low - width) // stride + 1
    if places < 1:
        return None
    name = draw(st.sampled_from(("add", "maximum")))
    initial = text.constant({"add": 0, "maximum": -(2**21)}[name])
    windows = array([width if e == d else 1 for e in range(rank)])
    strides = array([stride if e == d else 1 for e in range(rank)])
    padding = listed([f"[{low if e == d else 0}, 0]" for e in range(rank)])  # type: ignore[misc]
    shape = (*x.shape[:d], places, *x.shape[d + 1 :])
    line = (
        f'"stablehlo.reduce_window"({x.name}, {initial}) ({body(name)}) '
        f"{{window_dimensions = {windows}, window_strides = {strides}, "
        f"padding = dense<{padding}> : tensor<{rank}x2xi64>}} : "
        f"({tensor(x.shape)}, tensor<f32>) -> {tensor(shape)}"
    )
    bound = max(x.bound * width, 2.0**20 if name == "maximum" and low else 0)
    return text.add(line, shape, bound, x)


def sort(draw: Draw, text: Text, x: Value) -> Value | None:
    d = dim_of(draw, x)
    if d is None:
        return None
    compare = (
        "{^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.compare LT, %x, %y : "
        "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>}"
    )
    kind = tensor(x.shape)
    line = f'"stablehlo.sort"({x.name}) ({compare}) {{dimension = {d} : i64}} : ({kind}) -> {kind}'
    return text.add(line, x.shape, x.bound, x)


MOVING: tuple[Step, ...] = (
    *(concatenate, slice_, pad, reverse, sort, reduce_window),
    *(convolution, convolution, convolution),
)
INDEXED: tuple[Step, ...] = (
    gather,
    batched_gather,
    scatter_add,
    dynamic_slice,
    dynamic_update_slice,
)
