"""A branch that is known before the program runs stands in the place of its op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tests.modules import program_of
from toast.analysis.chosen_branches import take_chosen_branches
from toast.analysis.forms import decode
from toast.analysis.program import CASE_END, Program

X = np.array([0.5, -2.0, 3.0], dtype=np.float32)
F = "tensor<3xf32>"
CONSTANT = "%i = stablehlo.constant dense<{index}> : tensor<i32>"
CLAMPED = """
  %low = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<{index}> : tensor<i32>
  %high = stablehlo.constant dense<2> : tensor<i32>
  %i = stablehlo.clamp %low, %n, %high : tensor<i32>
"""
FLAG = """
  %n = stablehlo.constant dense<{flag}> : tensor<i1>
  %i = stablehlo.convert %n : (tensor<i1>) -> tensor<i32>
"""


def switch(index: str) -> str:
    """A program that calls a function, whose `case` runs one of three ops."""
    branches = ", ".join(
        f"{{ %y = stablehlo.{op} %x : {F}\n stablehlo.return %y : {F} }}"
        for op in ("abs", "negate", "exponential")
    )
    return f"""
func.func public @main(%x: {F}) -> {F} {{
  %y = func.call @f(%x) : ({F}) -> {F}
  return %y : {F}
}}
func.func private @f(%x: {F}) -> {F} {{
  {index}
  %y = "stablehlo.case"(%i) ({branches}) : (tensor<i32>) -> {F}
  return %y : {F}
}}
"""


def kinds_of(program: Program) -> list[str]:
    """The ops of a program without its constants."""
    kinds = [program.kind(op) for op in range(program.ops)]
    return [kind for kind in kinds if kind != "stablehlo.constant"]


def kinds_in(step: Callable[..., Any], *shapes: tuple[int, ...]) -> set[str]:
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return set(kinds_of(program_of(jax.jit(step).lower(*given).as_text())))


def run(module: ir.Module) -> np.ndarray[Any, Any]:
    with module.context:
        (found,) = stablehlo.eval_module(module, [ir.DenseElementsAttr.get(X)])
    return np.array(found)


@given(st.sampled_from([CONSTANT, CLAMPED, FLAG]), st.integers(-3, 5))
def test_the_branch_is_the_one_that_runs(form: str, index: int) -> None:
    text = switch(form.format(index=index, flag=str(index > 0).lower())).encode()
    module = decode(text).module
    with module.context:
        take_chosen_branches(module)
        assert module.operation.verify()
    assert "stablehlo.case" not in str(module)
    np.testing.assert_array_equal(run(module), run(decode(text).module))


@pytest.mark.parametrize(("flag", "kept"), [("true", "tanh"), ("false", "sine")])
def test_a_branch_within_a_branch(flag: str, kept: str) -> None:
    program = program_of(
        f"""
func.func @main(%x: {F}) -> {F} {{
  %p = stablehlo.constant dense<{flag}> : tensor<i1>
  %y = "stablehlo.if"(%p) ({{
    %i = stablehlo.constant dense<1> : tensor<i32>
    %r = "stablehlo.case"(%i) ({{
      %s = stablehlo.cosine %x : {F}
      stablehlo.return %s : {F}
    }}, {{
      %s = stablehlo.tanh %x : {F}
      stablehlo.return %s : {F}
    }}) : (tensor<i32>) -> {F}
    stablehlo.return %r : {F}
  }}, {{
    %s = stablehlo.sine %x : {F}
    stablehlo.return %s : {F}
  }}) : (tensor<i1>) -> {F}
  return %y : {F}
}}
"""
    )
    assert kinds_of(program) == ["argument", f"stablehlo.{kept}", "return"]


def test_what_only_a_run_tells_stays() -> None:
    kinds = kinds_in(lambda x: jax.lax.cond(jnp.sum(x) > 0, jnp.sin, jnp.cos, x), (4,))
    assert {CASE_END, "stablehlo.sine", "stablehlo.cosine"} <= kinds


def test_flags_of_python() -> None:
    def step(x: jax.Array, deep: bool = True, kind: int = 2) -> jax.Array:
        x = jax.lax.cond(deep, jnp.sin, jnp.cos, x)
        return jax.lax.switch(kind, [jnp.abs, jnp.negative, jnp.exp], x)

    assert kinds_in(step, (4,)) == {
        "argument", "stablehlo.sine", "stablehlo.exponential", "return",
    }  # fmt: skip


def test_in_the_body_of_a_loop() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda _, y: jax.lax.cond(True, jnp.sin, jnp.cos, y), x)

    kinds = kinds_in(step, (4,))
    assert "stablehlo.sine" in kinds
    assert not {CASE_END, "stablehlo.cosine"} & kinds


def test_the_gradient_of_a_diagonal_is_computed_once() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.diag(x @ x) ** 2)

    text = jax.jit(jax.grad(loss)).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32)).as_text()
    assert "stablehlo.case" in text, "jnp.diag no longer depends on the platform"
    program = program_of(text)
    kinds = kinds_of(program)
    assert kinds.count("stablehlo.gather") == kinds.count("stablehlo.scatter") == 1
    assert CASE_END not in kinds
    assert "stablehlo.convert" not in kinds, "the mask is for another platform's branch"


def test_what_may_do_more_than_compute_stays() -> None:
    program = program_of(
        f"""
func.func @main(%x: {F}) -> {F} {{
  %i = stablehlo.constant dense<0> : tensor<i32>
  %unread = stablehlo.sine %x : {F}
  %called = stablehlo.custom_call @print(%x) {{has_side_effect = true}} : ({F}) -> {F}
  %y = "stablehlo.case"(%i) ({{
    stablehlo.return %x : {F}
  }}, {{
    %z = stablehlo.add %called, %unread : {F}
    stablehlo.return %z : {F}
  }}) : (tensor<i32>) -> {F}
  return %y : {F}
}}
"""
    )
    assert kinds_of(program) == ["argument", "custom_call print", "return"]
