"""Modules that make their sums otherwise, or in wider floats, compute the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

from examples.forms import Step, serialize
from tests.toast.forms.programs import REGION
from toast.analysis.errors import UnsupportedModule
from toast.analysis.forms import decode
from toast.verify.execution import compile_module, run_original
from toast.verify.sums import reordered
from toast.verify.widen import widen


def lowered(function: Any, *arguments: Any) -> ir.Module:
    structs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arguments]
    step = Step(function=jax.jit(function), arguments=tuple(structs))
    return decode(serialize(step, "bytecode")).module


def run(module: ir.Module, *arguments: Any) -> list[Any]:
    return run_original(compile_module(module, 1), list(arguments))


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def scattered(x: jax.Array, places: jax.Array) -> jax.Array:
    return jax.ops.segment_sum(x, places, 5)


def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


def looped(x: jax.Array, weights: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, weights)[0]


CASES: list[tuple[Any, tuple[Any, ...], str]] = [
    (lambda x, w: x @ w, (floats(6, 7), floats(7, 3)), "dot_general"),
    (lambda x: x.sum(), (floats(6, 7),), "stablehlo.reduce"),
    (lambda x: x.mean(axis=(0, 2)), (floats(6, 4, 9),), "stablehlo.reduce"),
    (scattered, (floats(9, 3), np.array([0, 1, 1, 4, 3, 0, 0, 2, 1])), "scatter"),
    (convolved, (floats(2, 4, 8, 8), floats(5, 4, 3, 3)), "convolution"),
    (looped, (floats(4, 6), floats(3, 6, 6)), "dot_general"),
]


@pytest.mark.parametrize(("function", "arguments", "op"), CASES)
def test_sums_in_halves_add_up_to_the_same(
    function: Any, arguments: tuple[Any, ...], op: str
) -> None:
    module = lowered(function, *arguments)
    before = str(module)
    other = reordered(module)
    assert str(module) == before
    assert str(other).count(op) > before.count(op)
    (expected,), (found,) = run(module, *arguments), run(other, *arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_sum_of_many_is_rounded_otherwise() -> None:
    values = floats(100_000)
    module = lowered(lambda x: x.sum(), values)
    (one,), (other,) = run(module, values), run(reordered(module), values)
    assert one != other


@pytest.mark.parametrize("function", [jnp.max, jnp.argmax, jnp.prod])
def test_what_is_no_sum_stays(function: Any) -> None:
    values = floats(6, 7)
    module = lowered(function, values)
    assert str(reordered(module)) == str(module)


@pytest.fixture
def wide_floats() -> Any:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("function", "arguments", "op"), CASES)
def test_wider_floats_compute_the_same(
    function: Any, arguments: tuple[Any, ...], op: str, wide_floats: None
) -> None:
    module = lowered(function, *arguments)
    (expected,) = run(module, *arguments)
    widen(module)
    wider = [one.astype(np.float64) if one.dtype == np.float32 else one for one in arguments]
    (found,) = run(module, *wider)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_random_numbers_are_made_of_bits_as_before(dtype: str, wide_floats: None) -> None:
    def dropped(bits: jax.Array, x: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(bits)
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, jnp.asarray(-1e9, x.dtype))

    key, values = np.array([1, 2], np.uint32), jnp.asarray(floats(8, 4), dtype)
    module = lowered(dropped, key, values)
    (expected,) = run(module, key, np.asarray(values))
    widen(module)
    (found,) = run(module, key, np.asarray(values).astype(np.float64))
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=1e-2)


def test_an_op_that_wants_its_floats_is_named() -> None:
    module = lowered(lambda x: jax.lax.reduce_precision(x, 8, 7), floats(4))
    with pytest.raises(UnsupportedModule, match="reduce_precision wants the floats"):
        widen(module)


def test_what_stands_in_a_region_of_its_own_is_widened_too() -> None:
    module = decode(REGION).module
    widen(module)
    assert "sdy.manual_computation" in str(module)
    assert "f32" not in str(module)
