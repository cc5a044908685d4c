"""Convolutions whose windows do not overlap: images cut into patches."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.modules import analysed, colours_of, value_named
from toast.analysis.analyse import Analysis
from toast.analysis.program import FactorKind


def patches(size: int, patch: int) -> Analysis:
    """An image [8, size, size, 4] under filters [patch, patch, 4, 16] at a stride of `patch`."""

    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (patch, patch), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    shapes = [(8, size, size, 4), (patch, patch, 4, 16)]
    structs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return analysed(jax.jit(f).lower(*structs).as_text(debug_info=True).encode())


# more patches than pixels in each, as many, and fewer (a 224 pixel image in patches of 16)
@pytest.mark.parametrize(("size", "patch"), [(64, 4), (64, 8), (64, 16), (224, 16)])
def test_the_rows_of_an_image_go_with_the_rows_of_patches(size: int, patch: int) -> None:
    analysis = patches(size, patch)
    program = analysis.program
    image, filters = (colours_of(analysis, argument.value) for argument in program.arguments)
    made = colours_of(analysis, value_named(program, "stablehlo.convolution"))
    assert image[1:3] == made[1:3]
    assert image[1] != image[2]
    assert min(image[1:3]) >= 0
    assert filters[:2] == [-1, -1]


@pytest.mark.parametrize(("size", "patch"), [(64, 4), (64, 16)])
def test_patches_need_no_strips_and_split_into_whole_patches(size: int, patch: int) -> None:
    program = patches(size, patch).program
    value = value_named(program, "stablehlo.convolution")
    rows = program.def_names(value)[1:3]
    assert program.factor_size[rows].tolist() == [size // patch] * 2
    assert program.factor_halo[rows].tolist() == [0, 0]
    assert set(program.factor_kind[rows].tolist()) == {FactorKind.HALO}


def test_windows_that_overlap_are_left_alone() -> None:
    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    structs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in [(8, 8, 8, 4), (7, 7, 4, 16)]]
    analysis = analysed(jax.jit(f).lower(*structs).as_text().encode())
    image, filters = (colours_of(analysis, arg.value) for arg in analysis.program.arguments)
    assert filters[:2] == [-1, -1]
    assert image[0] != image[3]
