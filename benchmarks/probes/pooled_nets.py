"""Training steps of nets that end in a mean over all pixels: cycles where there are few images.

Each image has 32 x 32 pixels at all layers. The last case is normalised by example, which lays
images out otherwise; the mean behind the last layer alone does not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets import conv
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered

SIDE, CLASSES, LAYERS = 32, 1000, 4
BATCH, CHANNELS, EXAMPLE = (0, 1, 2), (3,), (1, 2)
NETS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "2 images of 128 channels": (2, 128, ()),
    "2 images of 128 channels, batch norm": (2, 128, BATCH),
    "2 images of 128 channels, layer norm": (2, 128, CHANNELS),
    "4 images of 128 channels, batch norm": (4, 128, BATCH),
    "1 image of 256 channels, batch norm": (1, 256, BATCH),
    "2 images of 128 channels, by example": (2, 128, EXAMPLE),
}
"""Images on a device, channels, and the axes of what normalises them."""


def normed(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """A mean of 0 and a variance of 1 over some axes; over none `x` as it is."""
    if not axes:
        return x
    mean = jnp.mean(x, axis=axes, keepdims=True)
    variance = jnp.var(x, axis=axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def step(x: Any, filters: Any, out: Any, *, axes: tuple[int, ...]) -> Any:
    """One step of gradient descent: residual layers, a mean over pixels, a product."""

    def loss(weights: tuple[Any, Any]) -> jax.Array:
        made = x
        for layer in range(LAYERS):
            made = jax.nn.relu(normed(conv(made, weights[0][layer]), axes) + made)
        return jnp.mean(jnp.square(jnp.mean(made, axis=EXAMPLE) @ weights[1]))

    slopes = jax.grad(loss)((filters, out))
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, (filters, out), slopes)


def net(images: int, channels: int, axes: tuple[int, ...]) -> Layout:
    """A net with so many images on each of eight devices."""
    given = (
        (8 * images, SIDE, SIDE, channels),
        (LAYERS, 3, 3, channels, channels),
        (channels, CLASSES),
    )
    program = partial(lowered, partial(step, axes=axes), *given)
    return Layout(program=program, mesh="data=8", choices=(((0, 0), 0),))


def cycles(compiled: Compiled) -> int:
    """Those that the compiler estimates for a step."""
    return round(sum(compiled.verdict.cycles.values()))


LAYOUTS = {name: net(*given) for name, given in NETS.items()}
PROBE = Probe(
    name="pooled_nets",
    figures="cycles of a training step, as the compiler estimates them",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases=cases_of(LAYOUTS, cycles),
)
