"""Chains of convolutions without gradients: what a layer takes, and to begin and end a chain.

Each device has all images. Convolutions are of 3 x 3, from some channels to as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.probes.nets import conv, normed
from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered_of

Net = Callable[[jax.Array, list[jax.Array]], jax.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """So many images with pixels on a side and channels, through layers of a `net`."""

    net: Net
    images: int
    pixels: int
    channels: int
    layers: int

    def module(self) -> bytes:
        """The StableHLO."""
        filters = jax.ShapeDtypeStruct((3, 3, self.channels, self.channels), jnp.float32)
        shape = (self.images, self.pixels, self.pixels, self.channels)
        image = jax.ShapeDtypeStruct(shape, jnp.float32)
        return lowered_of(self.net, image, [filters] * self.layers)


def plain(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Convolutions and what is positive of them."""
    for one in filters:
        x = jax.nn.relu(conv(x, one))
    return x


def grouped(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Normalised over pixels and groups of channels."""
    for one in filters:
        x = jax.nn.silu(normed(conv(x, one)))
    return x


def residual(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Added to what two layers before made."""
    for one, other in zip(filters[::2], filters[1::2], strict=True):
        x = x + conv(jax.nn.relu(conv(x, one)), other)
    return x


def pooled(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """The mean over pixels behind them."""
    return plain(x, filters).mean((1, 2))


def strided(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Every second pixel of each dimension."""
    for one in filters:
        x = jax.nn.relu(conv(x, one, stride=2))
    return x


def halved(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """The greatest of four pixels behind each."""
    for one in filters:
        y = jax.nn.relu(conv(x, one))
        x = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x


def joined(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Convolved together with what two layers before made."""
    for one, other in zip(filters[::2], filters[1::2], strict=True):
        both = jnp.concatenate([x, jax.nn.relu(conv(x, one))], -1)
        x = jax.nn.relu(conv(both, jnp.concatenate([other, other], 2)))
    return x


def levelled(x: jax.Array, filters: list[jax.Array]) -> jax.Array:
    """Normalised over the channels of each pixel."""
    for one in filters:
        x = conv(x, one)
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        x = jax.nn.relu(centred * jax.lax.rsqrt(variance + 1e-5))
    return x


SHORT, LONG = 2, 6
FEW = ((2, 256, 16), (2, 256, 64), (2, 128, 128), (2, 64, 256), (4, 128, 64), (1, 256, 64))
NETS: dict[str, tuple[Net, tuple[tuple[int, int, int], ...]]] = {
    "plain": (plain, (*FEW, (8, 128, 128), (32, 64, 64))),
    "grouped": (grouped, ((2, 128, 128), (4, 128, 64))),
    "residual": (residual, ((2, 128, 128), (4, 128, 64))),
    "pooled": (pooled, ((2, 128, 128), (4, 128, 64), (8, 128, 128))),
    "strided": (strided, ((2, 256, 128), (4, 128, 64))),
    "halved": (halved, ((2, 256, 128), (4, 128, 64))),
    "joined": (joined, ((2, 128, 128),)),
    "levelled": (levelled, ((2, 128, 128),)),
}
CHAINS = {
    f"{name}, {layers} layers, {images} images of {pixels} pixels and {channels} channels": Chain(
        net=net, images=images, pixels=pixels, channels=channels, layers=layers
    )
    for name, (net, sizes) in NETS.items()
    for images, pixels, channels in sizes
    for layers in (SHORT, LONG)
}


PROBE = Probe(
    name="convolution_chains",
    figures="cycles of chains of convolutions",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases={name: Case.of(one.module, cycles) for name, one in CHAINS.items()},
)
