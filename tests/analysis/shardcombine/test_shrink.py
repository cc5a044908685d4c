"""Small sizes keep what matters about the large ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jax.interpreters import mlir
from jaxlib.mlir import ir

from tests.analysis.shardcombine.tools import one_op, ops_of
from toast.analysis.shardcombine.extract import text_of
from toast.analysis.shardcombine.opcopy import OpCopy, parse
from toast.analysis.shardcombine.reshapes import shrink_reshape
from toast.analysis.shardcombine.shrink import shrink, size_map
from toast.analysis.shardcombine.windows import shrink as shrink_window
from toast.analysis.windows import SlidingWindow

MAX_ELEMENTS = 200000

sizes = st.integers(1, 100_000)


@given(
    shapes=st.lists(st.lists(sizes, max_size=4).map(tuple), max_size=3).map(tuple),
    kept=st.sampled_from([0, 4, 8]),
)
def test_sizes_stay_equal_ordered_and_one(shapes: tuple[tuple[int, ...], ...], kept: int) -> None:
    small = size_map(shapes, kept)
    assert list(small.values()) == sorted(small.values())
    assert len(set(small.values())) == len(small)
    assert all(small[size] == size for size in small if size <= max(kept, 1))
    assert all(new % 2 == 0 for old, new in small.items() if old > max(kept, 1))


@st.composite
def covering(draw: st.DrawFn) -> SlidingWindow:
    """A window that takes fewer steps than it is wide, over a dimension of four or more."""
    width, stride = draw(st.integers(2, 300)), draw(st.integers(1, 4))
    steps, rest = draw(st.integers(1, width - 1)), draw(st.integers(0, stride - 1))
    low, high = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    size = width + (steps - 1) * stride + rest - low - high
    assume(size >= 4)
    return SlidingWindow(size=size, width=width, stride=stride, low=low, high=high)


@given(large=covering())
def test_a_window_that_covers_its_dimension_goes_on_taking_as_many_steps(
    large: SlidingWindow,
) -> None:
    assert 0 < large.steps < large.width
    small = shrink_window(large)
    if small is not None:
        assert small.steps == large.steps
        assert small.width == 8


@given(size=st.integers(32, 300), window=st.integers(1, 9), stride=st.integers(1, 3))
def test_a_small_window_keeps_its_size(size: int, window: int, stride: int) -> None:
    large = SlidingWindow(size=size, width=window, stride=stride)
    assume(large.steps >= window)
    small = shrink_window(large)
    assert small is not None
    assert (small.width, small.stride) == (window, stride)
    assert small.size >= 2 * window


def test_a_running_sum_stays_one() -> None:
    small = shrink_window(SlidingWindow(size=1024, width=1024, low=1023))
    assert small == SlidingWindow(size=8, width=8, low=7)


shapes = st.lists(st.sampled_from([1, 2, 3, 5, 8, 12, 64, 100]), min_size=1, max_size=4)


@given(left=shapes, parts=st.data())
def test_a_small_reshape_is_a_reshape(left: list[int], parts: st.DataObject) -> None:
    right: list[int] = []
    for size in left:
        divisor = parts.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        right += [divisor, size // divisor]
    small = shrink_reshape(tuple(left), tuple(right))
    assume(small is not None)
    assert small is not None
    assert math.prod(small[0]) == math.prod(small[1])
    assert (len(small[0]), len(small[1])) == (len(left), len(right))
    pairs = [*zip(left, small[0], strict=True), *zip(right, small[1], strict=True)]
    assert all((old == 1) == (new == 1) for old, new in pairs)


def test_a_reshape_without_common_factors_is_halved_on_both_sides() -> None:
    small = shrink_reshape((1024, 768), (768, 1024))
    assert small is not None
    assert math.prod(small[0]) == math.prod(small[1]) <= 4096
    assert small[0] == small[1][::-1]


def shrunk(op: str, *operands: str) -> OpCopy | None:
    with ops_of(one_op(op, list(operands))) as ops:
        text = text_of(ops[0])
    assert text is not None
    with mlir.make_ir_context(), ir.Location.unknown():
        copy = parse(text)
        assert copy is not None
        return shrink(copy)


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        (
            (
                "%r = stablehlo.slice %0 [1024:2048, 0:768] "
                ": (tensor<4096x768xf32>) -> tensor<1024x768xf32>"
            ),
            ["4096x768xf32"],
        ),
        (
            (
                "%r = stablehlo.dynamic_slice %0, %1, %2, sizes = [128, 768] "
                ": (tensor<4096x768xf32>, tensor<i32>, tensor<i32>) -> tensor<128x768xf32>"
            ),
            ["4096x768xf32", "i32", "i32"],
        ),
        (
            (
                "%r = stablehlo.pad %0, %1, low = [100, 0], high = [-50, 9], interior = [0, 7] "
                ": (tensor<4096x768xf32>, tensor<f32>) -> tensor<4146x6146xf32>"
            ),
            ["4096x768xf32", "f32"],
        ),
        (
            (
                '%r = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<'
                "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
                "index_vector_dim = 1>, slice_sizes = array<i64: 1, 768>}> "
                ": (tensor<50257x768xf32>, tensor<4096x1xi32>) -> tensor<4096x768xf32>"
            ),
            ["50257x768xf32", "4096x1xi32"],
        ),
        (
            (
                "%r = stablehlo.fft %0, type = FFT, length = [768] "
                ": (tensor<4096x768xcomplex<f32>>) -> tensor<4096x768xcomplex<f32>>"
            ),
            ["4096x768xcomplex<f32>"],
        ),
    ],
)
def test_attributes_that_mention_sizes_shrink_along(op: str, operands: list[str]) -> None:
    small = shrunk(op, *operands)
    assert small is not None
    assert sum(map(math.prod, small.operands + small.results)) < 1000
    assert all(size % 2 == 0 for shape in small.operands[:1] for size in shape if size > 1)


def test_an_op_that_only_its_own_sizes_fit_runs_when_small_and_not_when_large() -> None:
    text = "%r = stablehlo.bitcast_convert %0 : (tensor<{n}x3x4xui8>) -> tensor<{n}x3xui32>"
    assert shrunk(text.format(n=6), "6x3x4xui8") is not None
    large = shrunk(text.format(n=100_000), "100000x3x4xui8")
    assert large is None or sum(map(math.prod, large.operands)) <= MAX_ELEMENTS
