"""Small convolutional training steps: layers of 3 x 3 convolutions, plain or with group norm."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp

GROUPS = 8


def conv(x: jax.Array, filters: jax.Array, stride: int = 1) -> jax.Array:
    """x: [batch, height, width, channels]."""
    return jax.lax.conv_general_dilated(
        x, filters, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normed(x: jax.Array) -> jax.Array:
    """Normalised over pixels and the channels of a group."""
    groups = x.reshape(*x.shape[:-1], GROUPS, -1)
    mean = jnp.mean(groups, axis=(1, 2, 4), keepdims=True)
    variance = jnp.mean(jnp.square(groups - mean), axis=(1, 2, 4), keepdims=True)
    return ((groups - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)


def scaled(x: jax.Array, scale: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Normalised over axes of its channels in groups, then scaled: as `flax.linen` does it."""
    wide = x.astype(jnp.float32)
    groups = wide.reshape(*x.shape[:-1], GROUPS, -1)
    mean = jnp.mean(groups, axis=axes, keepdims=True)
    variance = jnp.mean(jnp.square(groups), axis=axes, keepdims=True) - jnp.square(mean)
    factor = jax.lax.rsqrt(variance + 1e-5) * scale.reshape(GROUPS, -1)
    return ((groups - mean) * factor).reshape(x.shape).astype(x.dtype)


@cache
def scaled_step(
    batch: int, pixels: int, channels: int, layers: int, axes: tuple[int, ...], dtype: str
) -> bytes:
    """As `step`, of convolutions that are normalised over axes (none: not at all) and scaled."""

    def loss(weights: list[jax.Array], scales: list[jax.Array], x: jax.Array) -> jax.Array:
        for filters, scale in zip(weights, scales, strict=True):
            made = conv(x, filters.astype(x.dtype))
            x = jax.nn.silu(scaled(made, scale, axes) if axes else made)
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    def train(weights: list[jax.Array], scales: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        slopes = jax.grad(loss)(weights, scales, x)
        return [filters - 0.1 * slope for filters, slope in zip(weights, slopes, strict=True)]

    filters = jax.ShapeDtypeStruct((3, 3, channels, channels), jnp.float32)
    scale = jax.ShapeDtypeStruct((channels,), jnp.float32)
    image = jax.ShapeDtypeStruct((batch, pixels, pixels, channels), jnp.dtype(dtype))
    lower = jax.jit(train, donate_argnums=0).lower
    return lower([filters] * layers, [scale] * layers, image).as_text().encode()


@cache
def step(batch: int, pixels: int, channels: int, layers: int, norm: bool = False) -> bytes:
    """The StableHLO of one step of gradient descent."""

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for filters in weights:
            made = conv(x, filters)
            x = jax.nn.silu(normed(made)) if norm else jnp.tanh(made)
        return jnp.mean(x * x)

    def train(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        slopes = jax.grad(loss)(weights, x)
        return [filters - 0.1 * slope for filters, slope in zip(weights, slopes, strict=True)]

    filters = jax.ShapeDtypeStruct((3, 3, channels, channels), jnp.float32)
    image = jax.ShapeDtypeStruct((batch, pixels, pixels, channels), jnp.float32)
    return jax.jit(train).lower([filters] * layers, image).as_text().encode()


@cache
def chain(batch: int, pixels: int, channels: tuple[int, ...]) -> bytes:
    """The StableHLO of the gradients of a chain of convolutions between these channels."""

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for filters in weights:
            x = jax.nn.silu(conv(x, filters))
        return jnp.sum(x * x)

    weights = [jax.ShapeDtypeStruct((3, 3, a, b), jnp.float32) for a, b in pairwise(channels)]
    image = jax.ShapeDtypeStruct((batch, pixels, pixels, channels[0]), jnp.float32)
    return jax.jit(jax.grad(loss)).lower(weights, image).as_text().encode()
