"""What handles images beside the arithmetic of convolutions. Each device has all images.

Those of few channels that a program is given are copied into tiles and turned. Pools are passes.
The gradient of a transposed convolution's filter reads an image backwards.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.probes.nets import conv
from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered

STEMS = (
    (8, 112, 1, 3, 1, 64),
    (8, 112, 3, 3, 1, 64),
    (8, 112, 3, 7, 2, 64),
    (8, 112, 4, 3, 2, 32),
    (8, 112, 8, 3, 1, 64),
    (16, 112, 3, 7, 2, 64),
    (32, 64, 1, 3, 1, 64),
    (64, 64, 3, 3, 1, 64),
    (64, 64, 3, 7, 2, 64),
    (128, 32, 3, 3, 1, 64),
    (256, 28, 1, 3, 1, 32),
)
"""Images, pixels on a side, their channels, the side of a window, strides, and channels made."""
POOLED = ((8, 112, 128), (16, 112, 64), (32, 64, 128), (128, 32, 64))
"""Images of three channels, pixels on a side, channels of what is pooled."""
LARGER = ((16, 64, 64, 3), (16, 32, 64, 32), (8, 64, 64, 32))
"""Images, pixels on a side of the smaller, channels of the smaller and of the larger."""


def stem(stride: int, x: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Two convolutions, and the greatest of all pixels."""
    return jax.nn.relu(conv(jax.nn.relu(conv(x, first, stride)), second)).max((1, 2))


def pool(pooling: bool, x: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """The same with the greatest of four pixels between both convolutions, or with the first."""
    y, window = jax.nn.relu(conv(x, first)), (1, 2, 2, 1)
    if pooling:
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, window, window, "VALID")
    return jax.nn.relu(conv(y, second, 1 if pooling else 2)).max((1, 2))


def of_transposed(x: jax.Array, filters: jax.Array, wanted: jax.Array) -> jax.Array:
    """The gradient of the filter of a transposed convolution of stride 2."""

    def loss(filters: jax.Array) -> jax.Array:
        made = jax.lax.conv_transpose(
            x, filters, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.sum(jnp.square(made - wanted))

    return jax.grad(loss)(filters)


def _stem(images: int, pixels: int, given: int, side: int, stride: int, made: int) -> Case:
    shapes = (images, pixels, pixels, given), (side, side, given, made), (3, 3, made, made)
    return Case.of(partial(lowered, partial(stem, stride), *shapes), cycles)


def _pool(pooling: bool, images: int, pixels: int, channels: int) -> Case:
    shapes = (images, pixels, pixels, 3), (3, 3, 3, channels), (3, 3, channels, channels)
    return Case.of(partial(lowered, partial(pool, pooling), *shapes), cycles)


def _transposed(images: int, pixels: int, given: int, made: int) -> Case:
    shapes = (images, pixels, pixels, given), (4, 4, given, made)
    return Case.of(
        partial(lowered, of_transposed, *shapes, (images, 2 * pixels, 2 * pixels, made)), cycles
    )


PROBE = Probe(
    name="image_passes",
    figures="cycles of images given, pooled, and read backwards",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases={
        f"{n} images of {pixels} pixels and {c} channels, {side} x {side} over {stride}": _stem(
            n, pixels, c, side, stride, made
        )
        for n, pixels, c, side, stride, made in STEMS
    }
    | {
        f"{n} images of {pixels} pixels, {channels} channels {word}": _pool(
            word == "pooled", n, pixels, channels
        )
        for n, pixels, channels in POOLED
        for word in ("pooled", "strided")
    }
    | {
        f"{n} images of {pixels} pixels, {given} to {made} channels": _transposed(
            n, pixels, given, made
        )
        for n, pixels, given, made in LARGER
    },
)
