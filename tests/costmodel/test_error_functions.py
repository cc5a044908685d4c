"""Exact GELUs between two products take the time in which a TPU unpacks their comparisons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.error_functions import LAYERS, Layer
from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered_of
from tests.modules import analysed
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.error_functions import unpacked_values
from toast.costmodel.passes.fusion import fuse

RATES = {"tpu-v5e": (1.503e9, 0.25), "tpu-v5p": (1.75e9, 0.35)}
"""Cycles a second of a chip, and how far a layer may be off."""
BATCHES = [name for name, one in LAYERS.items() if len(one.rows) > 1 and one.rows[0] > 1]
ONE = LAYERS["4 x 512 in 32 bits"]


def unpacked(module: bytes) -> list[int]:
    """How many values each fusion unpacks that unpacks any."""
    program = analysed(module).program
    found = unpacked_values(program, fuse(program, profile_of(find("tpu-v5e"))))
    return [len(values) for values in found.values()]


@pytest.mark.parametrize("device", sorted(RATES))
@pytest.mark.parametrize("name", BATCHES)
def test_a_layer_takes_about_as_long_as_libtpu_estimates(name: str, device: str) -> None:
    rate, error = RATES[device]
    evaluator = Evaluator(analysed(LAYERS[name].module()), Mesh.parse("all=8"), find(device))
    cycles = evaluator.cost(()).compute * rate
    assert cycles == pytest.approx(golden("error_functions", name, device), rel=error)


@pytest.mark.parametrize(
    ("layer", "number"),
    [
        (ONE, [1]),
        (replace(ONE, tanh=True), []),
        (replace(ONE, rows=(2048,)), []),
        (replace(ONE, rows=(1, 2048)), []),
    ],
)
def test_comparisons_of_a_batch_are_packed(layer: Layer, number: list[int]) -> None:
    assert unpacked(layer.module()) == number


def test_a_gradient_reads_what_is_compared() -> None:
    def loss(weights: Any, x: Any) -> Any:
        return jnp.sum(ONE.step(x, *weights))

    shapes = ((512, 2048), (2048,), (2048, 512), (512,))
    weights = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    x = jax.ShapeDtypeStruct((4, 512, 512), jnp.float32)
    assert unpacked(lowered_of(jax.grad(loss), weights, x)) == []


def test_other_compilers_pack_none() -> None:
    program = analysed(ONE.module()).program
    assert not unpacked_values(program, fuse(program, profile_of(find("a100-40gb"))))
