"""Constants in memory: on a TPU they lie whole on each device, and so does what is made of them."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.probes.constant_folding import CLOSED, PROBE, TEXTS, closed_over, module
from benchmarks.probes.figures import TARGETS, golden
from benchmarks.probes.programs import lowered
from tests.modules import analysed
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.constant_folding import constants_of

MIB = 2**20
SIDE = 1024
RULES = profile_of(find("tpu-v5e")).constant_folding


def numbers(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(SIDE, SIDE))
    return drawn.astype(np.float32)


def constant_bytes(data: bytes, device: str = "tpu-v5e") -> float:
    return Evaluator(analysed(data), Mesh.parse("data=8"), find(device)).constant_bytes / MIB


@pytest.mark.parametrize("device", TARGETS)
def test_what_is_looked_up_takes_what_the_compiler_reports(device: str) -> None:
    """Of 64 texts the whole on a TPU; of 256 it is too large to be made before, and local."""
    reported = {name: golden("constant_folding", name, device) for name in TEXTS}
    known = {name: constant_bytes(module(TEXTS[name]), device) for name in TEXTS}
    assert known["none"] == 0.0
    assert known["64 texts"] == (64.0 if device.startswith("tpu") else 0.0)
    beside = reported["64 texts"] - reported["none"] - known["64 texts"]
    assert -0.2 < beside < 9.0  # the part of a device, and figures of a tenth
    assert known["256 texts"] == (1.0 if device.startswith("tpu") else 0.0)  # the table
    assert reported["256 texts"] < 256.0


@pytest.mark.parametrize("device", TARGETS)
def test_what_a_function_closes_over_takes_what_the_compiler_reports(device: str) -> None:
    """A weight of 64 MiB, in 16 bits where only a product reads it; both cases hold the rest."""
    half, whole = (constant_bytes(closed_over(added), device) for added in CLOSED.values())
    reported = [golden("constant_folding", name, device) for name in CLOSED]
    assert whole - half == pytest.approx(reported[1] - reported[0])
    assert (half, whole) == ((32.0, 64.0) if device.startswith("tpu") else (0.0, 0.0))


def test_the_probe_asks_all_compilers() -> None:
    assert set(PROBE.targets) == set(TARGETS.values())


def test_a_constant_that_only_products_read_is_stored_in_16_bits() -> None:
    def run(x: jax.Array, added: bool) -> jax.Array:
        weights = jnp.asarray(numbers(0))
        x = x @ weights
        return x + weights if added else x

    half, whole = (
        constant_bytes(lowered(partial(run, added=added), (SIDE, SIDE))) for added in (False, True)
    )
    assert (half, whole) == (2.0, 4.0)


def test_equal_constants_are_one_and_others_are_not() -> None:
    def run(x: jax.Array, seeds: tuple[int, int]) -> jax.Array:
        return jnp.tanh(x + numbers(seeds[0])) * numbers(seeds[1])

    one, two = (
        constant_bytes(lowered(partial(run, seeds=(0, seed)), (SIDE, SIDE))) for seed in (0, 1)
    )
    assert (one, two) == (4.0, 8.0)


def test_a_gpu_keeps_no_constant_beside_what_it_allocates() -> None:
    data = lowered(lambda x: x + numbers(0), (SIDE, SIDE))
    assert constant_bytes(data, "a100-40gb") == 0.0


def test_what_counts_up_is_computed_where_it_is_read() -> None:
    data = lowered(
        lambda x: x * jnp.sin(jnp.arange(SIDE, dtype=jnp.float32))[:, None], (SIDE, SIDE)
    )
    program = analysed(data).program
    assert not constants_of(program, RULES).made.any()


def test_what_an_argument_decides_is_looked_up_by_the_program() -> None:
    def run(x: jax.Array, places: jax.Array) -> jax.Array:
        return x + jnp.take(jnp.asarray(numbers(0)), places[:, 0].astype(int), axis=0)

    program = analysed(lowered(run, (SIDE, SIDE), (SIDE, 1))).program
    found = constants_of(program, RULES)
    assert [program.kind(program.makers[value]) for value in found.stored.tolist()] == [
        "stablehlo.constant"
    ]
