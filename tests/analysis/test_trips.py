"""Trip counts are read off counted loops; others get a stated default."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from toast.analysis.load import load
from toast.analysis.program import Program

DEFAULT_TRIPS = 10

X = jax.ShapeDtypeStruct((4,), "float32")


def lowered(function: object, *shapes: jax.ShapeDtypeStruct) -> Program:
    return load(jax.jit(function).lower(*shapes).as_text().encode()).program


def trips_of(program: Program, kind: str) -> set[float]:
    ops = [op for op in range(program.ops) if program.kind(op) == kind]
    return {float(program.op_trips[op]) for op in ops}


def test_scan() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=7)[0]

    assert trips_of(lowered(f, X), "stablehlo.sine") == {7}


def test_nested_scans_multiply() -> None:
    def inner(c: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jax.lax.scan(lambda d, _: (jnp.sin(d), None), c, None, length=3)[0], None

    def f(x: jax.Array) -> jax.Array:
        return jax.lax.scan(inner, x, None, length=5)[0]

    assert trips_of(lowered(f, X), "stablehlo.sine") == {15}


@pytest.mark.parametrize(("low", "high"), [(0, 4), (2, 9), (5, 6)])
def test_fori_loops_start_where_they_say(low: int, high: int) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(low, high, lambda _, c: jnp.sin(c), x)

    assert trips_of(lowered(f, X), "stablehlo.sine") == {high - low}


def test_an_unknown_count_is_taken_to_be_the_default_and_reported() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: jnp.sum(c) < 3, jnp.sin, x)

    program = lowered(f, X)
    assert trips_of(program, "stablehlo.sine") == {DEFAULT_TRIPS}
    assert any("trip count" in warning for warning in program.warnings)


def test_every_branch_of_a_cond_is_priced() -> None:
    def f(p: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.cond(p, jnp.sin, jnp.cos, x)

    program = lowered(f, jax.ShapeDtypeStruct((), "bool"), X)
    assert trips_of(program, "stablehlo.sine") == trips_of(program, "stablehlo.cosine") == {1}


def test_a_loop_that_never_runs_counts_once_and_is_named() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 9, lambda _, c: jnp.sin(c), x)

    text = jax.jit(f).lower(X).as_text()
    assert text.count("dense<9>") == 1
    program = load(text.replace("dense<9>", "dense<-2>").encode()).program
    assert trips_of(program, "stablehlo.sine") == {1}
    assert any("never runs" in warning for warning in program.warnings)
