"""Fourier transforms: how many steps they take, and how long on the matrix unit of a TPU."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.fourier import TRANSFORMS
from benchmarks.probes.programs import lowered
from tests.modules import analysed, evaluator_of
from toast.aot.target import CHIPS
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.passes.fourier_transforms import steps_of

NEAR = {"tpu-v5e": 0.45, "tpu-v5p": 0.65, "tpu-v3": 0.6}
"""Without the products a v5e would be at a tenth to a half of what libtpu estimates."""
LONG = [name for name in TRANSFORMS if name not in ("32", "128", "256")]
"""Of so few numbers a transform is one product, which computes what surrounds it."""
FFT = "stablehlo.fft"


@cache
def priced(name: str, device: str) -> Evaluator:
    step, shapes = TRANSFORMS[name]
    return evaluator_of(lowered(step, *shapes), "all=8", device)


def steps(name: str, tile: int = 128) -> int:
    program = priced(name, "tpu-v5e").analysis.program
    return max(steps_of(program, op, tile) for op in program.ops_named(FFT))


@pytest.mark.parametrize("device", NEAR)
@pytest.mark.parametrize("name", LONG)
def test_long_transforms_take_what_libtpu_estimates(name: str, device: str) -> None:
    cycles = sum(golden("fourier", name, device).values())
    seconds = priced(name, device).cost(()).compute
    assert seconds * (CHIPS[device].clock or 0.0) == pytest.approx(cycles, rel=NEAR[device])


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("32", 1),
        ("128", 1),
        ("256", 2),
        ("1000", 8),
        ("16384", 2),
        ("32768", 3),
        ("64 by 64", 2),
        ("2048 of real", 2),
        ("2048 to real", 2),
    ],
)
def test_each_step_multiplies_with_a_tile(name: str, count: int) -> None:
    """Powers of two are parted, other lengths are multiplied with all of their waves."""
    assert steps(name) == count


def test_no_other_op_is_a_transform() -> None:
    program = analysed(lowered(lambda a, b: a @ b, (8, 8), (8, 8))).program
    assert not program.op_transformed.any()


def test_devices_share_the_rows_of_a_transform() -> None:
    def spectrum(x: jax.Array) -> jax.Array:
        return jnp.fft.rfft(x).real

    found = evaluator_of(lowered(spectrum, (8192, 4096)), "a=8", "tpu-v5e")
    rows = found.analysis.program.def_names(found.analysis.program.arguments[0].value)[0]
    group = int(found.analysis.groups.of_colour[found.analysis.colours.colour[rows]])
    whole, shared = (found.cost(state).compute for state in ((), (Action(group=group, axis=0),)))
    assert shared == pytest.approx(whole / 8, rel=0.2)


def test_a_gpu_transforms_without_products() -> None:
    fusions = priced("2048", "a100-40gb").tables.fusions
    assert not len(fusions.transformed)
    assert len(priced("2048", "tpu-v5e").tables.fusions.transformed) == 1
