"""What reaches memory, and when it is alive."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from analysis.load import load
from analysis.program import Program
from costmodel.fusion import fuse
from costmodel.roles import Role, is_expensive, role
from tests.modules import value_named


def lowered(function: object, *shapes: tuple[int, ...]) -> Program:
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return load(jax.jit(function).lower(*structs).as_text().encode()).program


def test_a_chain_of_elementwise_ops_writes_once() -> None:
    program = lowered(lambda x: jnp.sin(jnp.cos(jnp.tanh(x))), (64,))
    fusion = fuse(program)
    written = [program.kind(int(program.value_op[v])) for v in fusion.written.nonzero()[0]]
    assert written == ["argument", "stablehlo.sine"]
    work = [root for root in fusion.roots if program.kind(root.op) == "stablehlo.sine"]
    assert len(work) == 1
    assert len(work[0].reads) == 1


def test_an_expensive_value_with_two_users_is_stored() -> None:
    def f(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        e = jnp.exp(x)
        return e + 1, e * 2

    program = lowered(f, (64,))
    assert fuse(program).written[value_named(program, "stablehlo.exponential")]


def test_a_cheap_value_with_two_users_is_computed_twice() -> None:
    program = lowered(lambda x: (jnp.sin(x + 1), jnp.cos(x + 1)), (64,))
    assert not fuse(program).written[value_named(program, "stablehlo.add")]


def test_what_a_product_writes_is_fused_into_a_single_elementwise_user() -> None:
    program = lowered(lambda x, w: jnp.tanh(x @ w), (8, 8), (8, 8))
    fusion = fuse(program)
    assert not fusion.written[value_named(program, "stablehlo.dot_general")]
    (root,) = [root for root in fusion.roots if root.contractions]
    assert program.kind(root.op) == "stablehlo.tanh"


def test_constants_never_reach_memory() -> None:
    program = lowered(lambda x: x + jnp.arange(64), (64,))
    fusion = fuse(program)
    assert not any(fusion.written[v] for v in range(program.values) if program.constant[v])


def test_an_update_runs_as_soon_as_its_gradient_is_there() -> None:
    def step(w: jax.Array, v: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        gw = x.T @ x
        gv = gw @ v
        return w - gw, v - gv

    program = lowered(step, (8, 8), (8, 8), (8, 8))
    fusion = fuse(program)
    first = int(program.value_op[value_named(program, "stablehlo.dot_general", 0)])
    update = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.subtract")
    assert fusion.position[update] == first < update


def test_roles() -> None:
    assert role("stablehlo.dot_general") is Role.CONTRACTION
    assert role("stablehlo.reduce") is Role.REDUCE
    assert role("custom_call mystery") is Role.OPAQUE
    assert role("argument") is Role.NOTHING
    assert role("stablehlo.something_new") is Role.FUSIBLE
    assert is_expensive("chlo.erf")
    assert not is_expensive("stablehlo.add")
