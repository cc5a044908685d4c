"""What is found for ops whose rules everybody knows."""

from __future__ import annotations

import pytest

from tests.analysis.shardcombine.tools import MAX, RETURN, SUM, discovery, strategies
from toast.analysis.shardcombine.findings import Discovery, Finding


def only(found: Discovery, *dims: int) -> Finding:
    """The finding that splits these dimensions."""
    return next(finding for finding in found.findings if finding.dims == dims)


def test_matmul_is_the_papers_figure_4() -> None:
    found = discovery(
        "%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] "
        ": (tensor<512x768xf32>, tensor<768x1024xf32>) -> tensor<512x1024xf32>",
        "512x768xf32",
        "768x1024xf32",
    )
    assert strategies(found) == {(0, -1): ("gather 0",), (1, 0): ("sum",), (-1, 1): ("gather 1",)}


def test_matmul_of_square_matrices_is_no_harder() -> None:
    found = discovery(
        "%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [1] "
        ": (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>",
        "512x512xf32",
        "512x512xf32",
    )
    assert strategies(found) == {(0, -1): ("gather 0",), (1, 1): ("sum",), (-1, 0): ("gather 1",)}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32", "complex<f32>", "ui8"])
def test_addition_splits_every_dimension_of_both_operands(dtype: str) -> None:
    kind = f"64x32x{dtype}"
    found = discovery(f"%r = stablehlo.add %0, %1 : tensor<{kind}>", kind, kind)
    assert strategies(found) == {(0, 0): ("gather 0",), (1, 1): ("gather 1",)}


def test_transpose_gathers_where_the_dimension_went() -> None:
    found = discovery(
        "%r = stablehlo.transpose %0, dims = [2, 0, 1] "
        ": (tensor<8x64x32xf32>) -> tensor<32x8x64xf32>",
        "8x64x32xf32",
    )
    assert strategies(found) == {(0,): ("gather 1",), (1,): ("gather 2",), (2,): ("gather 0",)}


@pytest.mark.parametrize(
    ("body", "combine"), [("add", "sum"), ("maximum", "max"), ("minimum", "min")]
)
def test_reductions_combine_by_themselves(body: str, combine: str) -> None:
    found = discovery(
        f"%r = stablehlo.reduce(%0 init: %1) applies stablehlo.{body} across dimensions = [1] "
        ": (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>",
        "64x32xf32",
        "f32",
    )
    assert strategies(found) == {(0, -1): ("gather 0",), (1, -1): (combine,)}


def test_a_product_is_none_of_the_papers_reductions() -> None:
    found = discovery(
        "%r = stablehlo.reduce(%0 init: %1) applies stablehlo.multiply across dimensions = [1] "
        ": (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>",
        "64x32xf32",
        "f32",
    )
    assert strategies(found) == {(0, -1): ("gather 0",)}


def test_any_of_booleans_is_their_maximum() -> None:
    found = discovery(
        "%r = stablehlo.reduce(%0 init: %1) applies stablehlo.or across dimensions = [0] "
        ": (tensor<64x32xi1>, tensor<i1>) -> tensor<32xi1>",
        "64x32xi1",
        "i1",
    )
    assert strategies(found) == {(0, -1): ("max",), (1, -1): ("gather 0",)}


def test_broadcast_splits_dimensions_that_only_the_result_has() -> None:
    found = discovery(
        "%r = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<32xf32>) -> tensor<64x32x16xf32>",
        "32xf32",
    )
    by_result = sorted((f.dims, f.combines[0].dim) for f in found.findings)
    assert by_result == [((-1,), 0), ((-1,), 2), ((0,), 1)]


CONVOLUTION = (
    "%r = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
    "window = {{stride = {stride}, pad = {pad}}} "
    "{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} "
    ": (tensor<{x}xf32>, tensor<{filters}xf32>) -> tensor<{result}xf32>"
)


def convolution(
    x: str, filters: str, result: str, *, stride: int = 1, pad: int = 0, groups: int = 1
) -> Discovery:
    text = CONVOLUTION.format(
        stride=[stride] * 2, pad=[[pad] * 2] * 2, groups=groups, x=x, filters=filters, result=result
    )
    return discovery(text, f"{x}xf32", f"{filters}xf32")


@pytest.mark.parametrize(
    ("pad", "result", "how"), [(0, "8x54x54x128", "gather"), (1, "8x56x56x128", "halo")]
)
def test_convolution_takes_a_halo_along_the_image(pad: int, result: str, how: str) -> None:
    """Figure 10: without padding sizes tell the halo, with padding the rows that agree do."""
    found = convolution("8x56x56x64", "3x3x64x128", result, pad=pad)
    assert strategies(found) == {
        (0, -1): ("gather 0",),
        (3, 2): ("sum",),
        (-1, 3): ("gather 3",),
        (1, -1): (f"{how} 1",),
        (2, -1): (f"{how} 2",),
    }
    rows = only(found, 1, -1)
    assert rows.halo == (1, 1)
    assert (rows.combines[0].before, rows.combines[0].after) == (pad, pad)


def test_a_1x1_convolution_needs_no_halo() -> None:
    found = convolution("8x56x56x64", "1x1x64x128", "8x56x56x128")
    assert only(found, 1, -1).halo == (0, 0)
    assert strategies(found)[1, -1] == ("gather 1",)


def test_a_strided_7x7_convolution_takes_an_uneven_halo() -> None:
    found = convolution("8x224x224x3", "7x7x3x64", "8x112x112x64", stride=2, pad=3)
    assert strategies(found)[1, -1] == ("halo 1",)
    assert strategies(found)[2, -1] == ("halo 2",)
    assert only(found, 1, -1).halo != (0, 0)


def test_groups_of_a_convolution_are_divided_among_shards() -> None:
    found = convolution("8x32x32x64", "3x3x16x64", "8x32x32x64", pad=1, groups=4)
    assert strategies(found)[3, 3] == ("gather 3",)
    assert only(found, 3, 3).divided == "feature_group_count"


def test_the_gradient_of_a_kernel_sums_over_pixels_with_a_halo() -> None:
    found = discovery(
        "%r = stablehlo.convolution(%0, %1) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], "
        "window = {pad = [[1, 1], [1, 1]]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
        ": (tensor<8x56x56x64xf32>, tensor<8x56x56x128xf32>) -> tensor<3x3x64x128xf32>",
        "8x56x56x64xf32",
        "8x56x56x128xf32",
    )
    assert strategies(found) == {
        (0, 0): ("sum",),
        (1, 1): ("sum",),
        (2, 2): ("sum",),
        (3, -1): ("gather 2",),
        (-1, 3): ("gather 3",),
    }


@pytest.mark.parametrize("count", [2, 3, 5])
def test_concatenate_gathers_in_as_many_blocks_as_operands(count: int) -> None:
    kind = "tensor<64x32xf32>"
    names = ", ".join(f"%{index}" for index in range(count))
    found = discovery(
        f"%r = stablehlo.concatenate {names}, dim = 0 "
        f": ({', '.join([kind] * count)}) -> tensor<{64 * count}x32xf32>",
        *["64x32xf32"] * count,
    )
    assert strategies(found) == {(0,) * count: ("blocks 0",), (1,) * count: ("gather 1",)}
    assert only(found, *(0,) * count).combines[0].blocks == count


def test_padding_is_a_negative_halo() -> None:
    found = discovery(
        "%r = stablehlo.pad %0, %1, low = [1, 0], high = [1, 0], interior = [0, 0] "
        ": (tensor<64x32xf32>, tensor<f32>) -> tensor<66x32xf32>",
        "64x32xf32",
        "f32",
    )
    rows = only(found, 0, -1)
    assert rows.halo == (0, 0)
    assert (rows.combines[0].before, rows.combines[0].after) == (1, 1)
    assert strategies(found)[1, -1] == ("gather 1",)


def test_overlapping_windows_scatter_with_a_positive_halo() -> None:
    found = discovery(
        '%r = "stablehlo.select_and_scatter"(%0, %1, %2) <{window_dimensions = array<i64: 3, 1>, '
        "window_strides = array<i64: 2, 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): "
        "%c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        f"stablehlo.return %c : tensor<i1> }}, {{ {SUM} {RETURN} }}) "
        ": (tensor<113x64xf32>, tensor<56x64xf32>, tensor<f32>) -> tensor<113x64xf32>",
        "113x64xf32",
        "56x64xf32",
        "f32",
    )
    assert strategies(found) == {(0, 0, -1): ("halo 0",), (1, 1, -1): ("gather 1",)}
    assert only(found, 0, 0, -1).combines[0].before == -1


def test_a_running_maximum_cannot_be_split_where_it_runs() -> None:
    found = discovery(
        '%r = "stablehlo.reduce_window"(%0, %1) <{window_dimensions = array<i64: 512, 1>, '
        "padding = dense<[[511, 0], [0, 0]]> : tensor<2x2xi64>}> "
        f"({{ {MAX} {RETURN} }}) : (tensor<512x64xf32>, tensor<f32>) -> tensor<512x64xf32>",
        "512x64xf32",
        "f32",
    )
    assert strategies(found) == {(1, -1): ("gather 1",)}


def test_a_scatter_of_sums_splits_its_updates() -> None:
    found = discovery(
        '%r = "stablehlo.scatter"(%0, %1, %2) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        f"index_vector_dim = 1>}}> ({{ {SUM} {RETURN} }}) "
        ": (tensor<5000x64xf32>, tensor<128x1xi32>, tensor<128x64xf32>) -> tensor<5000x64xf32>",
        "5000x64xf32",
        "128x1xi32",
        "128x64xf32",
    )
    assert strategies(found) == {(1, -1, 1): ("gather 1",), (-1, 0, 0): ("sum",)}


def test_top_k_splits_all_but_what_it_ranks() -> None:
    found = discovery(
        "%v, %i = chlo.top_k(%0, k = 8) : tensor<64x50257xf32> "
        "-> (tensor<64x8xf32>, tensor<64x8xi32>)",
        "64x50257xf32",
    )
    assert strategies(found) == {(0,): ("gather 0", "gather 0")}


SOFTMAX = """
func.func private @softmax(%x: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %e = stablehlo.exponential %x : tensor<128x64xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<128x64xf32>, tensor<f32>) -> tensor<128xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<128xf32>) -> tensor<128x64xf32>
  %d = stablehlo.divide %e, %b : tensor<128x64xf32>
  return %d : tensor<128x64xf32>
}"""


def test_a_softmax_composite_splits_its_rows_alone() -> None:
    found = discovery(
        '%r = stablehlo.composite "nn.softmax" %0 {decomposition = @softmax} '
        ": (tensor<128x64xf32>) -> tensor<128x64xf32>",
        "128x64xf32",
        functions=SOFTMAX,
    )
    assert strategies(found) == {(0,): ("gather 0",)}


MEAN_BY_MATMUL = """
func.func private @mean(%x: tensor<128x64xf32>) -> tensor<64xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<128xf32>
  %n = stablehlo.reduce(%ones init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<128xf32>, tensor<f32>) -> tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<128x64xf32>, tensor<f32>) -> tensor<64xf32>
  %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %d = stablehlo.divide %s, %b : tensor<64xf32>
  return %d : tensor<64xf32>
}"""


def test_a_mean_composite_is_reduced_with_the_mean() -> None:
    found = discovery(
        '%r = stablehlo.composite "nn.mean" %0 {decomposition = @mean} '
        ": (tensor<128x64xf32>) -> tensor<64xf32>",
        "128x64xf32",
        functions=MEAN_BY_MATMUL,
    )
    assert strategies(found) == {(0,): ("mean",), (1,): ("gather 0",)}


def test_a_reshape_splits_the_major_part_of_each_group() -> None:
    found = discovery(
        "%r = stablehlo.reshape %0 : (tensor<8192x1600xf32>) -> tensor<8x1024x25x64xf32>",
        "8192x1600xf32",
    )
    assert strategies(found) == {(0,): ("gather 0",), (1,): ("gather 2",)}
