"""Rules that Shardy leaves out, compound dimensions, and facts taken off a module."""

from __future__ import annotations

import pytest

from tests.modules import program_of
from toast.analysis.program import FactorKind
from toast.analysis.rules import major, minor_factors, own_rule, pointwise


def test_a_generator_is_parallel_in_every_dimension() -> None:
    rule = own_rule("stablehlo.iota", [], [(4, 8)])
    assert rule == pointwise(0, [(4, 8)])
    assert set(rule.kinds) == {FactorKind.PARALLEL}


def test_an_elementwise_chlo_op_is_pointwise() -> None:
    rule = own_rule("chlo.erf", [(4, 8)], [(4, 8)])
    assert rule.known
    assert rule.operands == rule.results == (((0,), (1,)),)


def test_a_barrier_passes_each_operand_on_by_itself() -> None:
    rule = own_rule("stablehlo.optimization_barrier", [(4,), (4, 8)], [(4,), (4, 8)])
    assert rule.operands == rule.results == (((0,),), ((1,), (2,)))


def test_an_unknown_op_is_whole_everywhere_and_counted() -> None:
    rule = own_rule("stablehlo.custom_call", [(4, 8)], [(8,)])
    assert not rule.known
    assert set(rule.kinds) == {FactorKind.BLOCKED}
    program = program_of(
        "func.func @main(%x: tensor<4x8xf32>) -> tensor<8xf32> {"
        " %y = stablehlo.custom_call @mystery(%x) : (tensor<4x8xf32>) -> tensor<8xf32>"
        " return %y : tensor<8xf32> }"
    )
    assert program.no_rule == {"custom_call mystery": 1}


@pytest.mark.parametrize(
    ("sizes", "factors", "expected"),
    [((8, 4), (0, 1), 0), ((1, 4), (0, 1), 1), ((1, 1), (0, 1), -1), ((8,), (), -1)],
)
def test_major_is_the_first_factor_above_one(
    sizes: tuple[int, ...], factors: tuple[int, ...], expected: int
) -> None:
    assert major(sizes, factors) == expected


def test_minor_factors_have_a_larger_one_before_them() -> None:
    assert minor_factors((8, 4, 2), (((0, 1), (2,)),)) == {1}
    assert minor_factors((1, 4), (((0, 1),),)) == set()


def test_a_halo_is_as_wide_as_the_window_reaches() -> None:
    program = program_of(
        "func.func @main(%x: tensor<1x32x32x4xf32>, %k: tensor<3x3x4x1xf32>)"
        " -> tensor<1x32x32x1xf32> {"
        " %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<1x32x32x4xf32>, tensor<3x3x4x1xf32>) -> tensor<1x32x32x1xf32>"
        " return %y : tensor<1x32x32x1xf32> }"
    )
    halos = program.factor_halo[program.factor_kind == FactorKind.HALO]
    assert halos.tolist() == [2, 2]
