"""What a program tells of itself: counts, users and ops by name, as a walk over it finds them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from tests.laws.chains import Text
from tests.laws.programs import programs
from toast.analysis.errors import InvalidModule
from toast.analysis.load import load


@settings(max_examples=30)
@given(module=programs())
def test_what_is_kept_in_lists_is_what_the_arrays_say(module: Text) -> None:
    program = load(module.module().encode()).program
    starts, uses = program.readers
    for value in range(program.values):
        expected = [use for use, taken in enumerate(program.sources) if taken == value]
        assert uses[starts[value] : starts[value + 1]].tolist() == expected
    assert program.elements == [math.prod(program.shape(v)) for v in range(program.values)]
    for name in (*program.names, "stablehlo.nothing"):
        expected = [op for op in range(program.ops) if program.kind(op) == name]
        assert program.ops_named(name) == expected
    assert program.ops_named(*program.names) == list(range(program.ops))


@settings(max_examples=30)
@given(module=programs())
def test_what_is_asked_op_by_op_is_what_the_arrays_say(module: Text) -> None:
    program = load(module.module().encode()).program
    assert list(program.makers) == program.value_op.tolist()
    assert list(program.sources) == program.use_value.tolist()
    for op in range(program.ops):
        assert program.kind(op) == program.names[program.op_name[op]]
        assert [program.user(use) for use in program.uses_of(op)] == [op] * len(program.uses_of(op))
        assert all(program.makers[value] == op for value in program.values_of(op))
        assert program.factors_of(op).stop == program.op_factors[op + 1]
    for value in range(program.values):
        first, end = program.value_dims[value : value + 2]
        assert program.shape(value) == tuple(program.dim_size[first:end].tolist())


@pytest.mark.parametrize("number", ["1 : i32", "-1 : i32", '"a"'])
def test_an_alias_of_a_result_that_is_not_there_is_refused(number: str) -> None:
    module = (
        f"func.func @main(%x: tensor<8xf32> {{tf.aliasing_output = {number}}}) -> tensor<8xf32> {{"
        "\n  return %x : tensor<8xf32>\n}"
    )
    with pytest.raises(InvalidModule, match="the module has 1 results"):
        load(module.encode())
