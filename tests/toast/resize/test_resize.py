"""A program at other sizes is the program that lowering it again at those sizes gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from examples import gemma
from examples.forms import Step, serialize
from examples.models import MODELS
from tests.modules import text
from toast.analysis.errors import InvalidRequest, ToastError
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.resize.resize import Dimension, Resized, Resizer, resize

Ops = list[tuple[str, float, list[tuple[int, ...]]]]


def ops_of(program: Program) -> Ops:
    """Every op with how often it runs and the shapes that it makes."""
    return [
        (
            program.kind(op),
            float(program.op_trips[op]),
            [program.shape(value) for value in program.values_of(op)],
        )
        for op in range(program.ops)
    ]


def shapes_of(step: Step) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(step.arguments)]


def changed(one: Step, other: Step) -> list[Dimension]:
    """The dimensions of arguments in which two steps differ."""
    return [
        (argument, dim)
        for argument, (shape, new) in enumerate(zip(shapes_of(one), shapes_of(other), strict=True))
        for dim, (size, grown) in enumerate(zip(shape, new, strict=True))
        if size != grown
    ]


def resized(data: bytes, wanted: dict[Dimension, int]) -> tuple[Program, Resized]:
    written, found = resize(decode(data).module, wanted)
    return load(written).program, found


CASES: list[tuple[str, dict[str, int]]] = [
    ("t2b", {"batch": 24}),
    ("t2b", {"seq": 48}),
    ("t2b", {"vocab": 640}),
    ("t2b", {"hidden": 320}),
    ("gns", {"edges": 640}),
    ("gns", {"nodes": 40}),
    ("gns", {"latent": 80}),
    ("unet", {"batch": 24}),
    ("itx", {"batch": 24}),
    ("gpt", {"batch": 24}),
    ("wideresnet", {"batch": 24}),
]


@pytest.mark.parametrize(("name", "sizes"), CASES)
@pytest.mark.parametrize("scan", [False, True])
def test_another_size_is_that_of_lowering_again(
    name: str, sizes: dict[str, int], scan: bool
) -> None:
    model = MODELS[name]
    if scan and not model.has_scan:
        return
    config = model.config("tiny", scan=scan)
    old, new = (model.make_step(one) for one in (config, replace(config, **sizes)))
    places = changed(old, new)
    if sizes.keys().isdisjoint({"hidden", "latent"}):  # those of each layer are its own
        places = places[:1]
    (size,) = sizes.values()
    wanted = {(argument, dim): shapes_of(new)[argument][dim] for argument, dim in places}
    program, _ = resized(serialize(old, "bytecode"), wanted)
    assert size in {extent for _, _, shapes in ops_of(program) for one in shapes for extent in one}
    assert ops_of(program) == ops_of(load(serialize(new, "bytecode")).program)


def test_sizes_that_change_together() -> None:
    config = gemma.PRESETS["tiny"]
    larger = replace(config, batch=16, seq=64)
    old, new = gemma.make_step(config), gemma.make_step(larger)
    tokens = changed(old, new)[0][0]
    program, found = resized(serialize(old, "text"), {(tokens, 0): 16, (tokens, 1): 64})
    assert ops_of(program) == ops_of(load(serialize(new, "text")).program)
    assert {(one.old, one.new) for one in found.changes if one.old != one.new} == {
        (8, 16),
        (32, 64),
    }
    assert found.elements[1] > 2 * found.elements[0]


def test_nothing_wanted_changes_nothing() -> None:
    module = text("attention")
    program, found = resized(module, {})
    assert ops_of(program) == ops_of(load(module).program)
    assert found.elements[0] == found.elements[1]


def test_two_programs_share_their_arguments() -> None:
    one, other = (decode(text("mlp")).module for _ in range(2))
    resizer = Resizer(one, other)
    resizer.write(resizer.solve({(0, 0): 64}))
    assert str(one) == str(other)
    assert "tensor<64x" in str(one)


KEPT = """
func.func @main(%a: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %0 = stablehlo.custom_call @mystery(%a) : (tensor<32x8xf32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}
"""


def test_an_op_without_a_rule_keeps_its_sizes_and_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be 64 .*no rule .*custom_call") as caught:
        resize(decode(KEPT.encode()).module, {(0, 0): 64})
    assert "Lower the step again" in caught.value.hint


@pytest.mark.parametrize("dimension", [(3, 0), (0, 5)])
def test_a_dimension_that_is_none(dimension: Dimension) -> None:
    with pytest.raises(InvalidRequest, match="no dimension"):
        resize(decode(KEPT.encode()).module, {dimension: 64})


def test_what_does_not_divide_is_refused() -> None:
    module = """
func.func @main(%a: tensor<32xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.reshape %a : (tensor<32xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.add %0, %b : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
"""
    written, _ = resize(decode(module.encode()).module, {(0, 0): 48})
    assert "tensor<6x8xf32>" in str(decode(written).module)
    with pytest.raises(InvalidRequest, match="do not divide"):
        resize(decode(module.encode()).module, {(0, 0): 50})


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("interior", "size", "made"), [(0, 6, 4), (1, 6, 6)])
def test_a_pad_that_cuts_off(interior: int, size: int, made: int) -> None:
    module = f"""
func.func @main(%a: tensor<8xf32>) -> tensor<{size}xf32> {{
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [-1], high = [{size - 7 - 7 * interior}], interior = [{interior}]
    : (tensor<8xf32>, tensor<f32>) -> tensor<{size}xf32>
  return %1 : tensor<{size}xf32>
}}
"""
    resizer = Resizer(decode(module.encode()).module)
    found = resizer.solve(default={8: 5, 6: 4}.__getitem__)
    resizer.write(found)
    assert found.sizes.shape(resizer.results[0]) == (made,)


@pytest.mark.timeout(60)
def test_parts_of_no_elements_stay_empty() -> None:
    """As those of a scan in parallel, whose halves become none."""

    def step(rows: int) -> Step:
        def loss(x: jax.Array) -> jax.Array:
            return jnp.sum(jax.lax.associative_scan(jnp.multiply, x, axis=1) ** 2)

        return Step(function=jax.jit(jax.grad(loss)), arguments=(floats(rows, 5, 8),))

    program, _ = resized(serialize(step(4), "bytecode"), {(0, 0): 12})
    assert ops_of(program) == ops_of(load(serialize(step(12), "bytecode")).program)
    assert any(0 in shape for _, _, shapes in ops_of(program) for shape in shapes)


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def run(module: bytes, *arguments: Any) -> list[Any]:
    """What XLA makes of a module."""
    from toast.verify.execution import compile_module, run_original

    return run_original(compile_module(decode(module).module, 1), list(arguments))


def test_loops_run_as_often_and_their_stacks_stay() -> None:
    def stacked(x: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, w: (c @ w, c.sum()), x, weights)[1]

    step = Step(
        function=jax.jit(stacked),
        arguments=(
            jax.ShapeDtypeStruct((8, 32), "float32"),
            jax.ShapeDtypeStruct((48, 32, 32), "float32"),
        ),
    )
    data = serialize(step, "text")
    resizer = Resizer(decode(data).module)
    found = resizer.solve(default=lambda size: size // 2)
    assert {(one.old, one.new) for one in found.changes} == {(8, 4), (32, 16), (48, 48)}
    (kept,) = [one for one in found.changes if one.kept]
    assert "loop" in kept.kept


def test_constants_are_cut_and_repeated() -> None:
    import numpy as np

    module = b"""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = stablehlo.add %a, %c : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    for size, expected in ((2, [1, 2]), (6, [1, 2, 3, 4, 1, 2])):
        written, _ = resize(decode(module).module, {(0, 0): size})
        (result,) = run(written, np.zeros(size, np.float32))
        assert result.tolist() == expected


@pytest.mark.parametrize("kind", ["complex<f32>", "bf16"])
def test_constants_that_cannot_be_read_keep_their_sizes(kind: str) -> None:
    values = "[(1.0, 2.0), (3.0, 4.0)]" if kind.startswith("complex") else "[1.0, 2.0]"
    module = f"""
func.func @main(%a: tensor<2x{kind}>) -> tensor<2x{kind}> {{
  %c = stablehlo.constant dense<{values}> : tensor<2x{kind}>
  %0 = stablehlo.add %a, %c : tensor<2x{kind}>
  return %0 : tensor<2x{kind}>
}}
"""
    with pytest.raises(ToastError, match="cannot be cut"):
        resize(decode(module.encode()).module, {(0, 0): 4})


@pytest.mark.parametrize("name", ["t2b", "gns", "unet", "itx", "gpt", "wideresnet", "gat"])
def test_published_sizes_shrink_to_a_program(name: str) -> None:
    model = MODELS[name]
    step = model.make_step(model.config("paper", scan=model.has_scan))
    resizer = Resizer(decode(serialize(step, "bytecode")).module)
    found = resizer.solve(default=lambda size: max(min(size, 16), size // 16))
    resizer.write(found)
    assert found.elements[1] * 16 < found.elements[0]
