"""What reaches memory, and when it is alive."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.costmodel.profiles import TPU
from tests.modules import value_named
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.program.buffers import Buffers, loop_slots
from toast.costmodel.program.op_traits import Role, role


def lowered(function: object, *shapes: tuple[int, ...]) -> Program:
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return load(jax.jit(function).lower(*structs).as_text().encode()).program


def test_a_chain_of_elementwise_ops_writes_once() -> None:
    program = lowered(lambda x: jnp.sin(jnp.cos(jnp.tanh(x))), (64,))
    fusion = fuse(program, TPU)
    written = [program.kind(int(program.value_op[v])) for v in fusion.written.nonzero()[0]]
    assert written == ["argument", "stablehlo.sine"]
    work = [root for root in fusion.roots if program.kind(root.op) == "stablehlo.sine"]
    assert len(work) == 1
    assert len(work[0].reads) == 1


def test_a_value_is_stored_where_computing_it_again_reads_more() -> None:
    def many_inputs(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> object:
        total = a * b + c * d
        return tuple(f(total)[1:] for f in (jnp.sin, jnp.cos, jnp.tanh, jnp.exp))

    def one_input(a: jax.Array) -> object:
        e = jnp.exp(a)
        return e + 1, e * 2

    program = lowered(many_inputs, *[(64,)] * 4)
    assert fuse(program, TPU).written[value_named(program, "stablehlo.add")]
    program = lowered(one_input, (64,))
    assert not fuse(program, TPU).written[value_named(program, "stablehlo.exponential")]


def test_a_product_is_stored_at_the_narrowest_place_behind_it() -> None:
    def f(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = (x @ w).astype(jnp.bfloat16).astype(jnp.float32)
        return jnp.sin(y), jnp.sum(y, axis=0)

    program = lowered(f, (8, 8), (8, 8))
    fusion = fuse(program, TPU)
    narrow = value_named(program, "stablehlo.convert", 0)
    assert program.dtype(narrow) == "bf16"
    assert fusion.written[narrow]
    assert not fusion.written[value_named(program, "stablehlo.convert", 1)]


def test_optimizer_updates_are_one_kernel() -> None:
    def adam(p: jax.Array, m: jax.Array, v: jax.Array, g: jax.Array) -> object:
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return p - m / jnp.sqrt(v), m, v

    program = lowered(adam, *[(64,)] * 4)
    work = [
        k
        for k in fuse(program, TPU).launched
        if program.kind(k.ops[0]) not in ("argument", "return")
    ]
    assert len(work) == 1
    assert len(work[0].ops) == 3
    assert len({int(program.use_value[use]) for use in work[0].reads}) == 4


def test_kernels_are_not_joined_across_a_reduction() -> None:
    def softmax(x: jax.Array, w: jax.Array) -> jax.Array:
        e = jnp.exp(x @ w)
        return e / jnp.sum(e)

    program = lowered(softmax, (8, 8), (8, 8))
    fusion = fuse(program, TPU)
    divide = next(k for k in fusion.launched if program.kind(k.ops[-1]) == "stablehlo.divide")
    assert len(divide.ops) == 1


def test_a_cheap_value_with_two_users_is_computed_twice() -> None:
    program = lowered(lambda x: (jnp.sin(x + 1), jnp.cos(x + 1)), (64,))
    assert not fuse(program, TPU).written[value_named(program, "stablehlo.add")]


def test_what_a_product_writes_is_fused_into_a_single_elementwise_user() -> None:
    program = lowered(lambda x, w: jnp.tanh(x @ w), (8, 8), (8, 8))
    fusion = fuse(program, TPU)
    assert not fusion.written[value_named(program, "stablehlo.dot_general")]
    (root,) = [root for root in fusion.roots if root.contractions]
    assert program.kind(root.op) == "stablehlo.tanh"


def test_constants_never_reach_memory() -> None:
    program = lowered(lambda x: x + jnp.arange(64), (64,))
    fusion = fuse(program, TPU)
    assert not any(fusion.written[v] for v in range(program.values) if program.constant[v])


def test_an_update_runs_as_soon_as_its_gradient_is_there() -> None:
    def step(w: jax.Array, v: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        gw = x.T @ x
        gv = gw @ v
        return w - gw, v - gv

    program = lowered(step, (8, 8), (8, 8), (8, 8))
    fusion = fuse(program, TPU)
    first = int(program.value_op[value_named(program, "stablehlo.dot_general", 0)])
    update = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.subtract")
    assert fusion.position[update] == first < update


def test_a_chain_of_updates_runs_as_soon_as_its_gradient_is_there() -> None:
    """As optimizers that divide a gradient by what they reduce it to do."""

    def step(w: jax.Array, v: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        gw = x.T @ x
        gv = gw @ v
        return w - gw / jnp.sqrt((gw * gw).sum(axis=1)), v - gv

    program = lowered(step, (8, 8), (8, 8), (8, 8))
    fusion = fuse(program, TPU)
    first, second = (
        int(program.value_op[value_named(program, "stablehlo.dot_general", n)]) for n in range(2)
    )
    reduction = int(program.value_op[value_named(program, "stablehlo.reduce", 0)])
    update = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.subtract")
    assert first < second < reduction < update
    assert fusion.position[reduction] == fusion.position[update] == first


def test_what_a_product_reads_is_no_update() -> None:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        return (x.T @ x).sum(axis=1) @ w

    program = lowered(step, (8, 8), (8, 8))
    reduction = int(program.value_op[value_named(program, "stablehlo.reduce", 0)])
    assert fuse(program, TPU).position[reduction] == reduction


def test_roles() -> None:
    assert role("stablehlo.dot_general") is Role.CONTRACTION
    assert role("stablehlo.reduce") is Role.REDUCE
    assert role("custom_call mystery") is Role.OPAQUE
    assert role("argument") is Role.NOTHING
    assert role("stablehlo.something_new") is Role.FUSIBLE
    assert role("stablehlo.dynamic_update_slice") is Role.UPDATE


def scan_program() -> Program:
    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, v: (jnp.tanh(c @ v), c), x, w)

    return lowered(f, (8, 8), (4, 8, 8))


def test_what_a_loop_carries_lives_in_one_buffer() -> None:
    program = scan_program()
    last = np.full(program.values, program.ops, dtype=np.int64)
    slots = list(loop_slots(program))
    for slot in slots:
        last[slot.init] = slot.begin
    buffers = Buffers(program, last)
    for slot in slots:
        assert buffers.of(slot.condition) == buffers.of(slot.body) == buffers.of(slot.result)
    passed = [slot for slot in slots if slot.yielded == slot.body]
    assert passed
    for slot in passed:
        assert buffers.of(slot.body) == buffers.of(slot.init)
    (stack,) = [
        slot for slot in slots if program.shape(slot.body) == (4, 8, 8) and slot not in passed
    ]
    assert buffers.of(stack.yielded) == buffers.of(stack.body)


def test_an_update_outside_a_loop_takes_over_a_buffer_that_dies() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x).at[0].set(1.0)

    program = lowered(f, (8, 8))
    (update,) = [op for op in range(program.ops) if role(program.kind(op)) is Role.UPDATE]
    target, result = int(program.use_value[program.op_uses[update]]), program.values_of(update)[0]
    last = np.full(program.values, update, dtype=np.int64)
    assert Buffers(program, last).of(result) == Buffers(program, last).of(target)
    last[target] = update + 1
    assert Buffers(program, last).of(result) != Buffers(program, last).of(target)
