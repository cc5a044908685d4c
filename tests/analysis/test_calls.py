"""A program with calls is the program with its calls inlined, array by array."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from examples import block_sparse, gemma
from examples.forms import serialize
from tests.analysis.call_modules import LOOPS, MODULES, SHARDINGS
from tests.analysis.random_calls import modules
from tests.modules import program_of
from toast.analysis.flatten import flatten
from toast.analysis.forms import bytecode, decode
from toast.analysis.load import Source, load
from toast.analysis.locations import Locations
from toast.analysis.program import CONSTRAINT, PSEUDO, Program
from toast.analysis.reader import OpReader


def inlined(data: bytes) -> bytes:
    """A module without its calls."""
    module = decode(data).module
    with module.context:
        flatten(module)
        return bytecode(module)


def assert_equal(found: Program, wanted: Program) -> None:
    for field in dataclasses.fields(Program):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, field.name
            assert one.tolist() == other.tolist(), field.name
        else:
            assert one == other, field.name
    assert list(found.no_rule) == list(wanted.no_rule)


def assert_as_inlined(data: bytes) -> Source:
    source, wanted = load(data), load(inlined(data))
    assert_equal(source.program, wanted.program)
    assert source.facts == wanted.facts
    assert _handled(source) == _handled(wanted)
    for handle, place in zip(source.handles, source.places.tolist(), strict=True):
        assert handle.location.attr == source.locations[place][0]
    return source


def _handled(source: Source) -> list[str]:
    """What stands behind each op."""
    return [str(getattr(handle, "name", "argument")) for handle in source.handles]


@pytest.mark.parametrize("name", MODULES)
def test_small_programs(name: str) -> None:
    source = assert_as_inlined(MODULES[name].encode())
    kinds = [source.program.kind(op) for op in range(source.program.ops)]
    for kind, behind in zip(kinds, _handled(source), strict=True):
        assert kind in PSEUDO or kind.startswith(behind) or behind == "stablehlo.custom_call"


def test_a_model_with_helpers_of_its_own() -> None:
    step = block_sparse.make_step(block_sparse.PRESETS["tiny"])
    source = assert_as_inlined(serialize(step, "bytecode"))
    assert source.program.ops > 3 * len(set(source.places.tolist()))


@given(modules())
def test_random_programs(text: str) -> None:
    assert_as_inlined(text.encode())


def test_loops_count_what_they_are_passed() -> None:
    program = program_of(LOOPS)
    trips = [program.op_trips[op] for op in program.ops_named("stablehlo.sine")]
    unknown = 10
    assert trips == [6, 8, unknown, 6, 8, 3]
    assert len(program.warnings) == 1


def test_what_a_function_makes_of_constants_is_constant() -> None:
    @jax.jit
    def spread(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.broadcast_to(x, (8, 16)), jnp.sin(x)

    def step(x: jax.Array) -> jax.Array:
        known, unknown = spread(jnp.float32(3))[0], spread(x[0, 0])
        return known * unknown[0] * unknown[1]

    shape = jax.ShapeDtypeStruct((8, 16), "float32")
    source = assert_as_inlined(jax.jit(step).lower(shape).as_text().encode())
    program = source.program
    spreads = program.ops_named("stablehlo.broadcast_in_dim")
    made = [bool(program.constant[program.values_of(op)[0]]) for op in spreads]
    assert made[:2] == [True, False]


def test_constraints_hold_at_every_call() -> None:
    source = load(SHARDINGS.encode())
    kept = [source.facts.constraints[op].spec for op in sorted(source.facts.constraints)]
    assert kept == [(("data",), ("model",))] * 4
    assert all(source.program.kind(op) == CONSTRAINT for op in source.facts.constraints)
    assert source.facts.dropped == 8


def test_a_body_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much of the work is the same for two layers as for twelve."""
    read: list[str] = []
    plain = OpReader.op

    def counted(reader: OpReader, op: Any, operands: Any, results: Any) -> Any:
        read.append(op.name)
        return plain(reader, op, operands, results)

    monkeypatch.setattr(OpReader, "op", counted)
    source = load(_tower(12))
    assert len(source.program.ops_named("stablehlo.tanh")) == 12 * 3
    assert read.count("stablehlo.tanh") == 3


def _tower(layers: int) -> bytes:
    @jax.jit
    def layer(x: jax.Array) -> jax.Array:
        return jnp.tanh(jnp.tanh(jnp.tanh(x)))

    def step(x: jax.Array) -> jax.Array:
        for _ in range(layers):
            x = layer(x)
        return x

    text = jax.jit(step).lower(jax.ShapeDtypeStruct((4,), "float32")).as_text(debug_info=True)
    return text.encode()


def test_helpers_have_the_line_that_calls_them() -> None:
    def step(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, 0.0)

    lowered = jax.jit(step).lower(jax.ShapeDtypeStruct((4,), "float32"))
    source = load(lowered.as_text(debug_info=True).encode())
    (select,) = source.program.ops_named("stablehlo.select")
    found = Locations(source)[select]
    line = step.__code__.co_firstlineno + 1
    assert found.line == f"{__file__}:{line}"
    assert found.function == step.__qualname__ or found.function.endswith("step")
    assert found.label == "jit(step)/jit(_where)/select_n"


def test_what_is_copied_is_distinguished_by_its_call() -> None:
    source = load(serialize(gemma.make_step(gemma.PRESETS["tiny"]), "bytecode"))
    backward = [
        op
        for op in range(source.program.ops)
        if "transpose(" in Locations(source)[op].label
        and source.locations[source.places[op]][1] >= 0
    ]
    assert backward
