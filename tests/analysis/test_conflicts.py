"""Boxes: compatible without a path across, independent with one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import given, settings

from analysis.conflicts import clashing
from analysis.reach import Reach
from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.modules import analysed


def sets_of(function: object, *shapes: tuple[int, ...]) -> tuple[int, int]:
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    text = jax.jit(function).lower(*structs).as_text()
    analysis = analysed(text.encode())
    return len(analysis.conflicts.all), analysis.conflicts.sets


def test_a_chain_of_elementwise_ops_is_one_set() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.cos(x @ x.T))

    conflicts, sets = sets_of(f, (8, 4))
    assert conflicts >= 3
    assert sets == 1


def test_a_path_across_the_box_is_not_compatible() -> None:
    def f(x: jax.Array) -> jax.Array:
        a = jnp.sin(x @ x.T)
        return a + a.T

    structs = [jax.ShapeDtypeStruct((8, 4), "float32")]
    analysis = analysed(jax.jit(f).lower(*structs).as_text().encode())
    reach = Reach(analysis.program, analysis.colours)
    pairs = {
        analysis.program.kind(conflict.op): conflict.names for conflict in analysis.conflicts.all
    }
    sine, turned, total = (pairs[f"stablehlo.{op}"] for op in ("sine", "transpose", "add"))
    # sine reaches both sides of the sum, directly and through the transpose: a path across
    assert not reach.compatible(sine, total, crosswise=False)
    assert not reach.compatible(sine, total, crosswise=True)
    assert reach.compatible(pairs["stablehlo.dot_general"], sine, crosswise=False)
    assert reach.compatible(sine, turned, crosswise=False)


def test_a_crosswise_box_joins_with_sides_swapped() -> None:
    structs = [jax.ShapeDtypeStruct((8, 4), "float32")]
    text = jax.jit(lambda x: jnp.sin(jnp.transpose(x @ x.T))).lower(*structs).as_text()
    analysis = analysed(text.encode())
    assert analysis.conflicts.sets == 1


def test_two_independent_attentions_are_two_sets() -> None:
    def f(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(x @ x.T), jnp.cos(y @ y.T)

    _, sets = sets_of(f, (8, 4), (6, 4))
    assert sets == 2


def test_a_program_without_a_repeated_colour_has_no_conflict() -> None:
    assert sets_of(lambda x, w: x @ w, (8, 4), (4, 2)) == (0, 0)


@settings(deadline=None, max_examples=60)
@given(module=programs())
def test_conflicts_are_those_of_every_tensor_in_program_order(module: Text) -> None:
    analysis = analysed(module.module().encode())
    program, colours = analysis.program, analysis.colours
    expected: dict[tuple[int, int], int] = {}
    for op in range(program.ops):
        tensors = [program.use_names(use) for use in program.uses_of(op)]
        tensors += [program.def_names(value) for value in program.values_of(op)]
        for names in tensors:
            for pair in clashing(names, colours):
                if pair not in expected and pair[::-1] not in expected:
                    expected[pair] = op
    assert {one.names: one.op for one in analysis.conflicts.all} == expected
    assert [one.names for one in analysis.conflicts.all] == list(expected)
