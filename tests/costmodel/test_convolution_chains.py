"""Convolutions without gradients leave images as the next one takes them, as on a TPU."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.convolution_chains import (
    CHAINS,
    LONG,
    SHORT,
    halved,
    levelled,
    residual,
    strided,
)
from benchmarks.probes.figures import golden
from benchmarks.probes.nets import conv, step
from benchmarks.probes.programs import lowered_of
from tests.modules import analysed
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.convolution_chains import TRAINED, Passage, passages

V5E = "tpu-v5e"
RATE = 1.503e9
"""Cycles a second of a v5e."""
SHORTS = [name for name, one in CHAINS.items() if one.layers == SHORT]
SMALLER = (strided, halved)
"""Nets whose images become smaller, so that layers differ."""
ALIKE = [name for name in SHORTS if CHAINS[name].net not in SMALLER]


def priced(name: str) -> float:
    """Cycles."""
    evaluator = Evaluator(analysed(CHAINS[name].module()), Mesh.parse("all=8"), find(V5E))
    return evaluator.cost(()).compute * RATE


@pytest.mark.parametrize("name", ALIKE)
def test_a_layer_takes_about_as_long_as_libtpu_estimates(name: str) -> None:
    """Of few images it was five times as long, as if each were brought into blocks anew."""
    longer = name.replace(f"{SHORT} layers", f"{LONG} layers")
    wanted = golden("convolution_chains", longer, V5E) - golden("convolution_chains", name, V5E)
    assert priced(longer) - priced(name) == pytest.approx(wanted, rel=0.48)


@pytest.mark.parametrize("name", SHORTS)
def test_a_chain_begins_and_ends_as_long_as_libtpu_estimates(name: str) -> None:
    assert priced(name) == pytest.approx(golden("convolution_chains", name, V5E), rel=0.55)


def test_only_images_that_are_stored_are_copied_out_of_their_tiles() -> None:
    """Two layers of eight images take less where the mean over pixels is all that is stored."""
    stored, summed = (
        f"{net}, 2 layers, 8 images of 128 pixels and 128 channels" for net in ("plain", "pooled")
    )
    less = golden("convolution_chains", stored, V5E) - golden("convolution_chains", summed, V5E)
    assert priced(stored) - priced(summed) == pytest.approx(less, rel=0.4)


def passing(function: Callable[..., object], channels: int = 8, filters: int = 2) -> list[Passage]:
    """How each convolution of a function passes images on."""
    image = jax.ShapeDtypeStruct((8, 16, 16, channels), jnp.float32)
    given = [jax.ShapeDtypeStruct((3, 3, channels, channels), jnp.float32)] * filters
    return list(passages(analysed(lowered_of(function, image, given)).program).values())


GIVEN = Passage(enters=True, leaves=False, handed=False, given=True)
"""Of the first convolution of a chain, of an argument."""


def test_a_chain_is_entered_once_and_left_once() -> None:
    first, second = GIVEN, Passage(False, True, False)
    assert passing(residual) == [first, second]
    biased = passing(lambda x, w: conv(conv(x, w[0]) + jnp.arange(8.0), w[1]))
    assert biased == [first, second]


def both(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Convolves what a convolution makes together with what is made of it."""
    made = conv(x, filters[0])
    joined = jnp.concatenate([made, jnp.tanh(made)], -1)
    return conv(joined, jnp.concatenate([filters[1]] * 2, 2))


@pytest.mark.parametrize("net", [both, halved])
def test_images_that_are_joined_or_pooled_stay(net: Callable[..., object]) -> None:
    assert passing(net) == [GIVEN, Passage(False, True, False)]


def test_what_is_normalised_by_what_differs_between_pixels_enters_again() -> None:
    assert [one.enters for one in passing(levelled)] == [True, True]


def test_what_is_joined_with_an_argument_or_cut_enters_again() -> None:
    both = Passage(True, True, False)
    joined = passing(lambda x, w: conv(conv(x, w[0]) * jnp.sin(x), w[1]))
    assert joined == [GIVEN, both]
    halved = passing(lambda x, w: conv(conv(x, w[0])[:, ::2, ::2], w[1]))
    assert halved == [both._replace(given=True), both]


def test_steps_of_training_hand_all_images_over() -> None:
    program = analysed(step(8, 16, 16, 2)).program
    first, *others = passages(program).values()
    assert first == TRAINED._replace(given=True)
    assert set(others) == {TRAINED}
