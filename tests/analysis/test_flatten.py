"""Flattening inlines every call, and nothing else changes."""

from __future__ import annotations

import pytest

from tests.modules import program_of
from toast.analysis.errors import UnsupportedModule
from toast.analysis.flatten import flatten
from toast.analysis.forms import decode

NESTED = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y:2 = func.call @outer(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %z = func.call @inner(%y#1) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @outer(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %b = func.call @inner(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @inner(%b) : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %c : tensor<4xf32>, tensor<4xf32>
}
func.func private @inner(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.sine %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""


def test_nested_calls_are_copied_once_per_place() -> None:
    program = program_of(NESTED)
    kinds = [program.kind(op) for op in range(program.ops)]
    assert kinds == ["argument", *["stablehlo.sine"] * 3, "return"]
    chain = [int(program.use_value[program.uses_of(op)[0]]) for op in range(1, 5)]
    assert chain == [0, 1, 2, 3]


def test_the_flat_module_verifies_and_keeps_only_main() -> None:
    module = decode(NESTED.encode()).module
    with module.context:
        flatten(module)
        assert module.operation.verify()
        assert "call" not in str(module)
        assert len(module.body.operations) == 1


def test_a_call_inside_a_loop_is_inlined_there() -> None:
    program = program_of(
        """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
   cond {
    %p = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.sine %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
    )
    sine = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.sine")
    assert program.op_trips[sine] == 5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }", "main"),
        ("module {}", "no function `main`"),
        (
            (
                "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {"
                " %y = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>"
                " return %y : tensor<4xf32> }"
            ),
            "recursive",
        ),
        (
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
            "dyn",
        ),
        (
            (
                "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {"
                " %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>"
                " return %y : tensor<4xf32> }"
                " func.func private @f(tensor<4xf32>) -> tensor<4xf32>"
            ),
            "no body",
        ),
    ],
)
def test_programs_that_cannot_be_planned_say_why(body: str, message: str) -> None:
    with pytest.raises(UnsupportedModule, match=message) as caught:
        program_of(body)
    assert caught.value.hint
