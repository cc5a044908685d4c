"""Strips of neighbours: how wide, and what may not be split at all."""

from __future__ import annotations

import pytest

from tests.laws.chains import tensor
from toast.analysis.load import load
from toast.analysis.program import FactorKind, Program
from toast.analysis.windows import Window

HALO, PARALLEL, BLOCKED = FactorKind.HALO, FactorKind.PARALLEL, FactorKind.BLOCKED
MAXIMUM = (
    "({^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.maximum %x, %y : tensor<f32>\n"
    "stablehlo.return %c : tensor<f32>})"
)


def program_of(arguments: str, made: tuple[int, ...], line: str) -> Program:
    return load(
        f"func.func public @main({arguments}) -> {tensor(made)} {{\n"
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%r = {line}\nreturn %r : {tensor(made)} }}".encode()
    ).program


def factors(program: Program, kind: str) -> list[tuple[int, int, int]]:
    """(size, kind, strip) of the factors of the last op of a kind."""
    op = max(op for op in range(program.ops) if program.kind(op) == kind)
    rows = (program.factor_size, program.factor_kind, program.factor_halo)
    return [(int(a[f]), int(b[f]), int(c[f])) for a, b, c in [rows] for f in program.factors_of(op)]


def slice_factors(size: int, ranges: str, made: int) -> list[tuple[int, int, int]]:
    line = f"stablehlo.slice %a [{ranges}] : ({tensor((size,))}) -> {tensor((made,))}"
    return factors(program_of(f"%a: {tensor((size,))}", (made,), line), "stablehlo.slice")


def conv_factors(
    left: tuple[int, ...], filters: tuple[int, ...], made: tuple[int, ...], window: str, groups: int
) -> list[tuple[int, int, int]]:
    line = (
        "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : "
        f"i64}} : ({tensor(left)}, {tensor(filters)}) -> {tensor(made)}"
    )
    arguments = f"%a: {tensor(left)}, %b: {tensor(filters)}"
    return factors(program_of(arguments, made, line), "stablehlo.convolution")


@pytest.mark.parametrize(
    ("window", "size", "results", "strip"),
    [
        (Window(), 8, 8, 0),
        (Window(width=3, low=1), 8, 8, 2),
        (Window(width=2, stride=2), 8, 4, 0),
        (Window(width=3, stride=2, low=1), 8, 4, 1),
        (Window(width=8, low=7), 8, 8, 7),
        (Window(low=-1), 8, 7, 1),
        (Window(low=-7), 8, 1, 7),
        (Window(width=3, window_dilation=2, low=2), 16, 16, 4),
    ],
)
def test_strips_are_as_wide_as_windows_reach(
    window: Window, size: int, results: int, strip: int
) -> None:
    assert window.strip(size, results) == strip


def test_a_slice_is_split_only_where_both_sides_are_even() -> None:
    assert slice_factors(64, "2:62", 60) == [(4, HALO, 4)]
    assert slice_factors(64, "0:63", 63) == [(64, BLOCKED, 1)]


def test_half_of_a_dimension_is_another_dimension() -> None:
    assert slice_factors(8, "0:4", 4) == [(8, BLOCKED, 0)]


def test_overlapping_strided_windows_need_strips() -> None:
    found = conv_factors((4, 16, 2), (3, 2, 1), (4, 8, 1), "stride = [2], pad = [[1, 0]]", 1)
    assert (2, HALO, 1) in found


def test_patches_need_none() -> None:
    found = conv_factors((4, 16, 2), (2, 2, 8), (4, 8, 8), "stride = [2]", 1)
    assert (8, PARALLEL, 0) in found


def test_space_is_whole_where_output_features_can_be_split() -> None:
    found = conv_factors((4, 8, 2), (3, 2, 16), (4, 8, 16), "pad = [[1, 1]]", 1)
    assert (8, BLOCKED, 0) in found
    assert (16, PARALLEL, 0) in found


def test_dilated_operands_are_whole() -> None:
    found = conv_factors((4, 8, 2), (3, 2, 1), (4, 16, 1), "pad = [[2, 1]], lhs_dilate = [2]", 1)
    assert all(kind != HALO for _, kind, _ in found)


def test_groups_are_whole_where_nothing_slides() -> None:
    found = conv_factors((4, 8, 8), (1, 2, 12), (4, 8, 12), "pad = [[0, 0]]", 4)
    assert (4, BLOCKED, 0) in found
    slid = conv_factors((4, 8, 8), (3, 2, 12), (4, 6, 12), "pad = [[0, 0]]", 4)
    assert (4, PARALLEL, 0) in slid


@pytest.mark.parametrize(("low", "high", "interior"), [(0, 1, 1), (-1, 1, 0)])
def test_pads_that_xla_gets_wrong_are_whole(low: int, high: int, interior: int) -> None:
    made = (8 + 7 * interior + low + high,)
    line = (
        f"stablehlo.pad %a, %z, low = [{low}], high = [{high}], interior = [{interior}] : "
        f"(tensor<8xf32>, tensor<f32>) -> {tensor(made)}"
    )
    found = factors(program_of("%a: tensor<8xf32>", made, line), "stablehlo.pad")
    assert [kind for _, kind, _ in found] == [BLOCKED]


def test_windows_of_a_reduction_are_seen() -> None:
    line = (
        f'"stablehlo.reduce_window"(%a, %z) {MAXIMUM} {{window_dimensions = array<i64: 3>, '
        "padding = dense<[[1, 1]]> : tensor<1x2xi64>} : (tensor<24xf32>, tensor<f32>) "
        "-> tensor<24xf32>"
    )
    found = factors(program_of("%a: tensor<24xf32>", (24,), line), "stablehlo.reduce_window")
    assert found == [(8, HALO, 2)]


ADDED = MAXIMUM.replace("maximum", "add")
GREATER = (
    "{^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.compare GE, %x, %y : "
    "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>}"
)


@pytest.mark.parametrize("width", [2, 3])
def test_the_gradient_of_pooling_is_split_over_batch_and_channels_only(width: int) -> None:
    """Windows of one element are no windows; what lies in the others cannot be split."""
    image, pooled = (8, 16, 16, 4), (8, 16 // 2 - (width - 2), 16 // 2 - (width - 2), 4)
    windows = f"array<i64: 1, {width}, {width}, 1>"
    line = (
        f'"stablehlo.select_and_scatter"(%a, %b, %z) ({GREATER}, {ADDED[1:]} '
        f"{{window_dimensions = {windows}, window_strides = array<i64: 1, 2, 2, 1>}} : "
        f"({tensor(image)}, {tensor(pooled)}, tensor<f32>) -> {tensor(image)}"
    )
    program = program_of(f"%a: {tensor(image)}, %b: {tensor(pooled)}", image, line)
    found = factors(program, "stablehlo.select_and_scatter")
    open_to_axes = sorted(size for size, kind, _ in found if kind == PARALLEL)
    assert open_to_axes == [4, 8]
    assert all(kind == BLOCKED for size, kind, _ in found if size == 16)
    assert not any(kind == HALO for _, kind, _ in found)


def test_a_roll_moves_what_it_shifts_by() -> None:
    line = (
        "stablehlo.slice %a [0:4] : (tensor<16xf32>) -> tensor<4xf32>\n"
        "%s = stablehlo.slice %a [4:16] : (tensor<16xf32>) -> tensor<12xf32>\n"
        "%q = stablehlo.concatenate %s, %r, dim = 0 : (tensor<12xf32>, tensor<4xf32>) "
        "-> tensor<16xf32>\nreturn %q : tensor<16xf32> }\n"
        "func.func private @unused(%a: tensor<4xf32>) -> tensor<16xf32> {\n"
        "%r = stablehlo.constant dense<0.0> : tensor<16xf32>"
    )
    found = factors(program_of("%a: tensor<16xf32>", (16,), line), "stablehlo.concatenate")
    assert found == [(4, HALO, 4)]


@pytest.mark.parametrize(
    ("before", "after", "split"),
    [
        ((8, 6), (3, 16), []),
        ((4, 6), (6, 4), [2]),
        ((8, 6), (6, 8), [2]),
        ((4, 6), (24,), [4]),
        ((24,), (4, 6), [4]),
        ((6, 8), (16, 3), [2]),
    ],
)
def test_reshapes_are_split_only_where_both_sides_nest(
    before: tuple[int, ...], after: tuple[int, ...], split: list[int]
) -> None:
    line = f"stablehlo.reshape %a : ({tensor(before)}) -> {tensor(after)}"
    found = factors(program_of(f"%a: {tensor(before)}", after, line), "stablehlo.reshape")
    assert [size for size, kind, _ in found if kind != BLOCKED] == split
