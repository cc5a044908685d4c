"""Inputs that are made from the module alone."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from examples import gemma, mlp
from examples.forms import serialize
from examples.models import MODELS
from toast.analysis.forms import Loaded, decode
from toast.verify.inputs import (
    InputArgument,
    describe_arguments,
    make_inputs,
    numpy_dtype,
    one_unit_off,
)


def describe(loaded: Loaded) -> list[InputArgument]:
    with loaded.module.context:
        return describe_arguments(loaded.module)


@pytest.fixture(scope="module")
def tiny() -> list[InputArgument]:
    step = gemma.make_step(gemma.PRESETS["tiny"])
    return describe(decode(serialize(step, "bytecode")))


def test_second_moments_are_positive_and_nothing_else_is(tiny: list[InputArgument]) -> None:
    positive = {argument.name for argument in tiny if argument.positive}
    second = {argument.name for argument in tiny if argument.name.startswith("state['nu']")}
    assert second
    # The step count is what the bias correction raises a power to.
    assert positive - {"state['count']"} == second


def test_token_ids_stay_in_the_vocabulary(tiny: list[InputArgument]) -> None:
    bounds = {a.name: a.bound for a in tiny if a.name.startswith("batch")}
    assert bounds == {"batch['tokens']": 256, "batch['targets']": 256}


def test_values_are_what_they_have_to_be(tiny: list[InputArgument]) -> None:
    for argument, value in zip(tiny, make_inputs(tiny, 0), strict=True):
        assert value.shape == argument.shape
        assert value.dtype == argument.dtype
        if value.dtype.kind == "i":
            assert value.min(initial=0) >= 0
            assert value.max(initial=0) < (argument.bound or 8)
        elif argument.positive:
            assert value.min() >= 0.01
        else:
            assert abs(value).max() < 6 * argument.deviation
    tokens = next(v for a, v in zip(tiny, make_inputs(tiny, 0), strict=True) if "tokens" in a.name)
    assert tokens.max() > 128, "the upper shards of the vocabulary have to be hit"


def test_a_seed_is_repeatable(tiny: list[InputArgument]) -> None:
    first, again, other = (make_inputs(tiny, seed)[1] for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_weights_are_scaled_by_what_they_are_added_up_over(tiny: list[InputArgument]) -> None:
    config = gemma.PRESETS["tiny"]
    found = {argument.name: argument.deviation for argument in tiny}
    up, down = (f"state['params']['layers'][1]['{name}']" for name in ("up", "down"))
    assert found[up] == config.d_model**-0.5
    assert found[down] == config.hidden**-0.5
    assert found["state['params']['layers'][1]['mlp_norm']"] == 0.05


def test_weights_of_scanned_layers_are_scaled_too() -> None:
    model = MODELS["t2b"]
    config = model.config("tiny", scan=True)
    arguments = describe(decode(serialize(model.make_step(config), "bytecode")))
    (down,) = [one for one in arguments if one.name == "state['params']['layers']['down']"]
    assert down.deviation == 128**-0.5


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_one_unit_off_is_one_unit(dtype: Any) -> None:
    values = np.array([0.0, 1.5, -1.5, 1e-3, -300.0], dtype)
    moved = one_unit_off(values, 0)
    assert moved.dtype == values.dtype
    assert moved[0] == 0
    apart = abs(moved.astype(np.float64) - values.astype(np.float64))[1:]
    finfo: Any = ml_dtypes.finfo
    eps = float(finfo(values.dtype).eps)
    sizes = abs(values.astype(np.float64))[1:]
    assert ((apart > 0) & (apart <= sizes * eps)).all()


def test_one_unit_off_leaves_what_is_no_float() -> None:
    integers = np.arange(5)
    assert one_unit_off(integers, 0) is integers
    complex_values = np.array([1 + 2j], np.complex64)
    assert one_unit_off(complex_values, 0) != complex_values


def test_nothing_is_positive_without_roots() -> None:
    step = mlp.make_step(mlp.PRESETS["tiny"])
    assert not any(argument.positive for argument in describe(decode(serialize(step, "text"))))


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("f32", np.float32),
        ("bf16", ml_dtypes.bfloat16),
        ("i1", np.bool_),
        ("i32", np.int32),
        ("ui8", np.uint8),
        ("i4", ml_dtypes.int4),
        ("complex<f32>", np.complex64),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
    ],
)
def test_element_types(element: str, dtype: Any) -> None:
    assert numpy_dtype(element) == np.dtype(dtype)
    argument = InputArgument(
        index=0, name="a", shape=(3, 5), dtype=np.dtype(dtype), positive=False, bound=None
    )
    (value,) = make_inputs([argument], 0)
    assert value.dtype == np.dtype(dtype)
    assert value.shape == (3, 5)


@pytest.mark.parametrize("element", ["index", "tuple<>", "f7", "i7", "!stablehlo.token"])
def test_element_types_that_have_no_values(element: str) -> None:
    with pytest.raises(ValueError, match="cannot be made"):
        numpy_dtype(element)
