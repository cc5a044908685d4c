"""Ops that XLA must not split by itself are pinned on both sides."""

from __future__ import annotations

from tests.laws.states import every_action, prepared
from toast.analysis.program import Program
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.resolved import resolve
from toast.emit.partitioner_guards import guarded_ops
from toast.emit.specs import LayoutConstraint, Specs

HEAD = "func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x16xf32> {\n"
INTERIOR = HEAD + (
    "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "%s = stablehlo.sine %a : tensor<8x8xf32>\n"
    "%p = stablehlo.pad %s, %z, low = [0, 0], high = [0, 1], interior = [0, 1] : "
    "(tensor<8x8xf32>, tensor<f32>) -> tensor<8x16xf32>\n"
    "%r = stablehlo.sine %p : tensor<8x16xf32>\nreturn %r : tensor<8x16xf32> }"
)


def kinds(program: Program) -> list[str]:
    return [program.kind(op) for op in guarded_ops(program)]


def all_split(evaluator: Evaluator) -> Specs:
    actions = every_action(evaluator)
    return Specs(resolve(evaluator, (actions[0],)))


def pins_at(pins: list[LayoutConstraint], program: Program, kind: str) -> list[LayoutConstraint]:
    ops = [op for op in range(program.ops) if program.kind(op) == kind]
    values = {value for op in ops for value in program.values_of(op)}
    uses = {use for op in ops for use in program.uses_of(op)}
    return [p for p in pins if (p.value in values and not p.uses) or uses & set(p.uses)]


def test_a_pad_that_xla_gets_wrong_is_guarded() -> None:
    source, evaluator = prepared(INTERIOR, "x=2,y=2")
    assert kinds(source.program) == ["stablehlo.pad"]
    pins = pins_at(all_split(evaluator).constraints(), source.program, "stablehlo.pad")
    assert any(pin.uses for pin in pins)
    assert any(not pin.uses for pin in pins)


def test_nothing_is_pinned_where_nothing_is_split() -> None:
    _, evaluator = prepared(INTERIOR, "x=2,y=2")
    assert Specs(resolve(evaluator, ())).constraints() == []


def test_a_module_without_a_dimension_to_plan_for_is_priced() -> None:
    scalar = "func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
    _, evaluator = prepared(scalar, "x=2,y=2")
    assert every_action(evaluator) == []
    assert evaluator.cost(()).key == evaluator.cost(()).key


def test_ops_without_windows_are_left_alone() -> None:
    text = HEAD.replace("8x16", "8x8") + (
        "%r = stablehlo.sine %a : tensor<8x8xf32>\nreturn %r : tensor<8x8xf32> }"
    )
    assert kinds(prepared(text, "x=2")[0].program) == []
