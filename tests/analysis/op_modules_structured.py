"""Small modules for the ops that move, contract, index or order elements."""

from __future__ import annotations

from tests.analysis.op_modules import C, F, module, single_op

_ADD = (
    "({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n    %s = stablehlo.add %x, %y : tensor<f32>\n"
    "    stablehlo.return %s : tensor<f32>})"
)
_GREATER = (
    "{^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
    "    %s = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "    stablehlo.return %s : tensor<i1>}"
)
_ZERO = "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
_START = "%i: tensor<i32>"
Q = "tensor<8x16x16xf32>"
V = "tensor<16xf32>"


def _body(arguments: str, made: str, line: str) -> str:
    return module(arguments, made, f"{_ZERO}  %r = {line}\n  return %r : {made}")


MOVING = {
    "stablehlo.broadcast": single_op(
        f'"stablehlo.broadcast"(%a) {{broadcast_sizes = array<i64: 4>}} : ({F}) '
        "-> tensor<4x8x16xf32>",
        *(F, "tensor<4x8x16xf32>"),
    ),
    "stablehlo.broadcast_in_dim": single_op(
        f"stablehlo.broadcast_in_dim %a, dims = [1, 2] : ({F}) -> tensor<4x8x16xf32>",
        *(F, "tensor<4x8x16xf32>"),
    ),
    "stablehlo.bitcast_convert": single_op(
        f"stablehlo.bitcast_convert %a : ({F}) -> tensor<8x16xi32>", F, "tensor<8x16xi32>"
    ),
    "stablehlo.concatenate": single_op(
        f"stablehlo.concatenate %a, %b, dim = 1 : ({F}, {F}) -> tensor<8x32xf32>",
        *(F, "tensor<8x32xf32>", 2),
    ),
    "stablehlo.pad": _body(
        f"%a: {F}",
        "tensor<8x18xf32>",
        f"stablehlo.pad %a, %z, low = [0, 1], high = [0, 1], interior = [0, 0] : "
        f"({F}, tensor<f32>) -> tensor<8x18xf32>",
    ),
    "stablehlo.reshape": single_op(
        f"stablehlo.reshape %a : ({F}) -> tensor<8x4x4xf32>", F, "tensor<8x4x4xf32>"
    ),
    "stablehlo.reverse": single_op(f"stablehlo.reverse %a, dims = [1] : {F}", F, F),
    "stablehlo.slice": single_op(
        f"stablehlo.slice %a [0:8, 1:15] : ({F}) -> tensor<8x14xf32>", F, "tensor<8x14xf32>"
    ),
    "stablehlo.transpose": single_op(
        f"stablehlo.transpose %a, dims = [1, 0] : ({F}) -> tensor<16x8xf32>", F, "tensor<16x8xf32>"
    ),
    "stablehlo.sort": single_op(
        f'"stablehlo.sort"(%a) ({_GREATER}) {{dimension = 1 : i64}} : ({F}) -> {F}', F, F
    ),
    "stablehlo.dynamic_slice": module(
        f"%a: {F}, {_START}",
        "tensor<8x4xf32>",
        f"  %r = stablehlo.dynamic_slice %a, %i, %i, sizes = [8, 4] : "
        f"({F}, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>\n  return %r : tensor<8x4xf32>",
    ),
    "stablehlo.dynamic_update_slice": module(
        f"%a: {F}, %b: tensor<8x4xf32>, {_START}",
        F,
        f"  %r = stablehlo.dynamic_update_slice %a, %b, %i, %i : "
        f"({F}, tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> {F}\n  return %r : {F}",
    ),
    "stablehlo.gather": module(
        f"%a: {F}, %i: tensor<4x1xi32>",
        "tensor<4x16xf32>",
        '  %r = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>} : "
        f"({F}, tensor<4x1xi32>) -> tensor<4x16xf32>\n  return %r : tensor<4x16xf32>",
    ),
    "stablehlo.scatter": module(
        f"%a: {F}, %i: tensor<4x1xi32>, %u: tensor<4x16xf32>",
        F,
        f'  %r = "stablehlo.scatter"(%a, %i, %u) {_ADD} {{scatter_dimension_numbers = '
        "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : "
        f"({F}, tensor<4x1xi32>, tensor<4x16xf32>) -> {F}\n  return %r : {F}",
    ),
    "stablehlo.torch_index_select": module(
        f"%a: {F}, %i: tensor<4xi32>",
        "tensor<4x16xf32>",
        '  %r = "stablehlo.torch_index_select"(%a, %i) {dim = 0 : i64, batch_dims = 0 : i64} : '
        f"({F}, tensor<4xi32>) -> tensor<4x16xf32>\n  return %r : tensor<4x16xf32>",
    ),
    "stablehlo.constant": module(
        f"%a: {F}",
        F,
        f"  %k = stablehlo.constant dense<1.0> : {F}\n  %r = stablehlo.add %a, %k : {F}\n"
        f"  return %r : {F}",
    ),
    "stablehlo.iota": module(
        f"%a: {F}",
        F,
        f"  %k = stablehlo.iota dim = 1 : {F}\n  %r = stablehlo.add %a, %k : {F}\n"
        f"  return %r : {F}",
    ),
}

CONTRACTING = {
    "stablehlo.dot": single_op(
        "stablehlo.dot %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
        *("tensor<8x8xf32>", "tensor<8x8xf32>", 2),
    ),
    "stablehlo.dot_general": single_op(
        f"stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : ({F}, {F}) "
        "-> tensor<8x8xf32>",
        *(F, "tensor<8x8xf32>", 2),
    ),
    "stablehlo.einsum": single_op(
        f'"stablehlo.einsum"(%a, %b) {{einsum_config = "ij,kj->ik"}} : ({F}, {F}) '
        "-> tensor<8x8xf32>",
        *(F, "tensor<8x8xf32>", 2),
    ),
    "stablehlo.unary_einsum": single_op(
        f'"stablehlo.unary_einsum"(%a) {{einsum_config = "ij->i"}} : ({F}) -> tensor<8xf32>',
        *(F, "tensor<8xf32>"),
    ),
    "stablehlo.convolution": module(
        "%a: tensor<4x8x8xf32>, %b: tensor<3x8x16xf32>",
        "tensor<4x8x16xf32>",
        "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        "window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<4x8x8xf32>, tensor<3x8x16xf32>) -> tensor<4x8x16xf32>\n"
        "  return %r : tensor<4x8x16xf32>",
    ),
    "stablehlo.reduce": _body(
        f"%a: {F}",
        "tensor<8xf32>",
        f"stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : "
        f"({F}, tensor<f32>) -> tensor<8xf32>",
    ),
    "stablehlo.reduce_window": _body(
        f"%a: {F}",
        F,
        f'"stablehlo.reduce_window"(%a, %z) {_ADD} {{window_dimensions = array<i64: 1, 3>, '
        f"padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}} : ({F}, tensor<f32>) -> {F}",
    ),
    "stablehlo.select_and_scatter": _body(
        f"%a: {F}, %b: tensor<8x8xf32>",
        F,
        f'"stablehlo.select_and_scatter"(%a, %b, %z) ({_GREATER}, {_ADD[1:]} '
        "{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>} : "
        f"({F}, tensor<8x8xf32>, tensor<f32>) -> {F}",
    ),
    "stablehlo.cholesky": single_op(
        f"stablehlo.cholesky %a, lower = true : {Q}".replace(Q, "tensor<8x16x16xf32>"), Q, Q
    ),
    "stablehlo.triangular_solve": single_op(
        '"stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, '
        "unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : "
        f"({Q}, {Q}) -> {Q}",
        *(Q, Q, 2),
    ),
    "stablehlo.fft": single_op(f"stablehlo.fft %a, type = FFT, length = [16] : ({C}) -> {C}", C, C),
    "stablehlo.batch_norm_inference": module(
        f"%a: {F}, %g: {V}",
        F,
        '  %r = "stablehlo.batch_norm_inference"(%a, %g, %g, %g, %g) {epsilon = 0.001 : f32, '
        f"feature_index = 1 : i64}} : ({F}, {V}, {V}, {V}, {V}) -> {F}\n  return %r : {F}",
    ),
    "stablehlo.batch_norm_training": module(
        f"%a: {F}, %g: {V}",
        F,
        '  %r:3 = "stablehlo.batch_norm_training"(%a, %g, %g) {epsilon = 0.001 : f32, '
        f"feature_index = 1 : i64}} : ({F}, {V}, {V}) -> ({F}, {V}, {V})\n  return %r#0 : {F}",
    ),
    "stablehlo.batch_norm_grad": module(
        f"%a: {F}, %g: {V}",
        F,
        '  %r:3 = "stablehlo.batch_norm_grad"(%a, %g, %g, %g, %a) {epsilon = 0.001 : f32, '
        f"feature_index = 1 : i64}} : ({F}, {V}, {V}, {V}, {F}) -> ({F}, {V}, {V})\n"
        f"  return %r#0 : {F}",
    ),
    "chlo.top_k": module(
        f"%a: {F}",
        "tensor<8x4xf32>",
        f"  %r:2 = chlo.top_k(%a, k = 4) : {F} -> (tensor<8x4xf32>, tensor<8x4xi32>)\n"
        "  return %r#0 : tensor<8x4xf32>",
    ),
    "chlo.ragged_dot": module(
        "%a: tensor<16x8xf32>, %b: tensor<4x8x32xf32>, %g: tensor<4xi64>",
        "tensor<16x32xf32>",
        '  %r = "chlo.ragged_dot"(%a, %b, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<'
        "lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
        "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, "
        "precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]} : "
        "(tensor<16x8xf32>, tensor<4x8x32xf32>, tensor<4xi64>) -> tensor<16x32xf32>\n"
        "  return %r : tensor<16x32xf32>",
    ),
}
STRUCTURED = MOVING | CONTRACTING
