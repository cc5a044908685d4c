"""How mesh axes fold onto a torus."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.costmodel.network.torus import Part, even_shape, fold


@pytest.mark.parametrize(
    ("devices", "dims", "longest", "shape"),
    [
        (8, 2, 16, (2, 4)),
        (16, 2, 16, (4, 4)),
        (128, 2, 16, (8, 16)),
        (256, 2, 16, (16, 16)),
        (4, 3, 16, (1, 2, 2)),
        (64, 3, 16, (4, 4, 4)),
        (512, 3, 28, (8, 8, 8)),
        (60, 3, 16, (3, 4, 5)),
        (1, 2, 16, (1, 1)),
        (34, 2, 16, (2, 17)),
    ],
)
def test_slices_are_those_that_cloud_tpu_offers(
    devices: int, dims: int, longest: int, shape: tuple[int, ...]
) -> None:
    assert even_shape(devices, dims, longest) == shape


@pytest.mark.parametrize(
    ("sizes", "shape", "parts"),
    [
        # whole dimensions, the last axis first and with as many as it can have
        ([2, 4], (2, 4), [[Part(0, 2, 1)], [Part(1, 4, 1)]]),
        ([4, 2], (2, 4), [[Part(1, 4, 1)], [Part(0, 2, 1)]]),
        ([4, 16], (4, 4, 4), [[Part(2, 4, 1)], [Part(1, 4, 1), Part(0, 4, 1)]]),
        ([8], (2, 4), [[Part(1, 4, 1), Part(0, 2, 1)]]),
        # a dimension shared by two axes: the outer one steps over the inner one
        ([2, 2, 2], (2, 4), [[Part(0, 2, 1)], [Part(1, 2, 2)], [Part(1, 2, 1)]]),
        ([2, 8], (4, 4), [[Part(0, 2, 2)], [Part(1, 4, 1), Part(0, 2, 1)]]),
        ([2, 6], (3, 4), [[Part(1, 2, 2)], [Part(0, 3, 1), Part(1, 2, 1)]]),
        ([1, 8], (2, 4), [[], [Part(1, 4, 1), Part(0, 2, 1)]]),
    ],
)
def test_axes_fold_as_make_mesh_folds_them(
    sizes: list[int], shape: tuple[int, ...], parts: list[list[Part]]
) -> None:
    assert fold(sizes, shape) == parts


POWERS = st.lists(st.integers(0, 3).map(lambda n: 2**n), min_size=1, max_size=5)


@given(POWERS, st.sampled_from([2, 3]))
def test_parts_are_the_digits_of_each_dimension(sizes: list[int], dims: int) -> None:
    shape = even_shape(math.prod(sizes), dims, 2**15)
    folded = fold(sizes, shape)
    for size, parts in zip(sizes, folded, strict=True):
        assert math.prod(part.size for part in parts) == size
    for dim, side in enumerate(shape):
        stride = 1
        for part in sorted(
            (part for parts in folded for part in parts if part.dim == dim),
            key=lambda part: part.stride,
        ):
            assert part.stride == stride
            stride *= part.size
        assert stride == side


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_any_sizes_fold_somehow(sizes: list[int]) -> None:
    folded = fold(sizes, even_shape(math.prod(sizes), 2, 16))
    assert [math.prod(part.size for part in parts) for parts in folded] == sizes
