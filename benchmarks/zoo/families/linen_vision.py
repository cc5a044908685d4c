"""Models of images in `flax.linen`; images are [batch, height, width, channels]."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from benchmarks.zoo.families.linen import norm


class Convolutions(nn.Module):
    """Convolutions and pools, then two dense layers, as in flax's mnist, but wider."""

    widths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x = images
        for width in self.widths:
            x = nn.avg_pool(nn.relu(nn.Conv(width, (3, 3))(x)), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(1024)(x.reshape(x.shape[0], -1)))
        return nn.Dense(self.classes)(nn.Dropout(0.5, deterministic=not train)(x))


class ConvNext(nn.Module):
    """Depthwise convolutions of 7 x 7 and inverted bottlenecks."""

    widths: Sequence[int]
    depths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x = nn.LayerNorm()(nn.Conv(self.widths[0], (4, 4), strides=(4, 4))(images))
        for stage, (width, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            if stage:
                x = nn.Conv(width, (2, 2), strides=(2, 2))(nn.LayerNorm()(x))
            for _ in range(depth):
                y = nn.LayerNorm()(nn.Conv(width, (7, 7), feature_group_count=width)(x))
                y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(y)))
                scale = self.param(f"scale_{stage}_{_}", nn.initializers.constant(1e-6), (width,))
                x = x + nn.Dropout(0.1, broadcast_dims=(1, 2, 3), deterministic=not train)(
                    scale.astype(y.dtype) * y
                )
        return nn.Dense(self.classes)(nn.LayerNorm()(x.mean(axis=(1, 2))))


class Mixer(nn.Module):
    """MLPs over patches and over channels by turns."""

    patch: int
    width: int
    tokens: int
    channels: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        del train
        x = nn.Conv(self.width, (self.patch, self.patch), strides=(self.patch, self.patch))(images)
        x = x.reshape(x.shape[0], -1, self.width)
        for _ in range(self.layers):
            y = jnp.swapaxes(nn.LayerNorm()(x), 1, 2)
            y = nn.Dense(x.shape[1])(nn.gelu(nn.Dense(self.tokens)(y)))
            x = x + jnp.swapaxes(y, 1, 2)
            hidden = nn.gelu(nn.Dense(self.channels)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.width)(hidden)
        return nn.Dense(self.classes)(nn.LayerNorm()(x).mean(axis=1))


class Bottlenecks(nn.Module):
    """Inverted bottlenecks with squeeze and excitation, as in EfficientNet."""

    widths: Sequence[int]
    depths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x = nn.swish(norm(train)(nn.Conv(self.widths[0], (3, 3), strides=(2, 2))(images)))
        for width, depth in zip(self.widths, self.depths, strict=True):
            for number in range(depth):
                stride = 2 if number == 0 else 1
                y = self._bottleneck(x, width, stride, train)
                x = y if y.shape != x.shape else x + y
        x = nn.swish(norm(train)(nn.Conv(4 * self.widths[-1], (1, 1))(x)))
        return nn.Dense(self.classes)(x.mean(axis=(1, 2)))

    def _bottleneck(self, x: jax.Array, width: int, stride: int, train: bool) -> jax.Array:
        wide = 6 * x.shape[-1]
        y = nn.swish(norm(train)(nn.Conv(wide, (1, 1), use_bias=False)(x)))
        y = nn.Conv(wide, (5, 5), (stride, stride), feature_group_count=wide, use_bias=False)(y)
        y = nn.swish(norm(train)(y))
        few = nn.swish(nn.Conv(x.shape[-1] // 4, (1, 1))(y.mean(axis=(1, 2), keepdims=True)))
        y = y * nn.sigmoid(nn.Conv(wide, (1, 1))(few))
        return norm(train)(nn.Conv(width, (1, 1), use_bias=False)(y))


class Dense(nn.Module):
    """Each layer reads all before it in its stage, as in DenseNet."""

    growth: int
    depths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x = nn.Conv(2 * self.growth, (7, 7), strides=(2, 2))(images)
        x = nn.max_pool(nn.relu(norm(train)(x)), (3, 3), strides=(2, 2), padding="SAME")
        for stage, depth in enumerate(self.depths):
            for _ in range(depth):
                y = nn.Conv(4 * self.growth, (1, 1))(nn.relu(norm(train)(x)))
                y = nn.Conv(self.growth, (3, 3))(nn.relu(norm(train)(y)))
                x = jnp.concatenate([x, y], axis=-1)
            if stage < len(self.depths) - 1:
                x = nn.Conv(x.shape[-1] // 2, (1, 1))(nn.relu(norm(train)(x)))
                x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(self.classes)(nn.relu(norm(train)(x)).mean(axis=(1, 2)))


class Segmenter(nn.Module):
    """Down with pools, up with transposed convolutions, and skips between."""

    widths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x, skips = images, []
        for width in self.widths:
            x = self._pair(x, width, train)
            skips.append(x)
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = self._pair(x, 2 * self.widths[-1], train)
        for width, skip in zip(reversed(self.widths), reversed(skips), strict=True):
            x = nn.ConvTranspose(width, (2, 2), strides=(2, 2))(x)
            x = self._pair(jnp.concatenate([x, skip], axis=-1), width, train)
        return nn.Conv(self.classes, (1, 1))(x)

    def _pair(self, x: jax.Array, width: int, train: bool) -> jax.Array:
        for _ in range(2):
            x = nn.relu(norm(train)(nn.Conv(width, (3, 3), use_bias=False)(x)))
        return x


class Pixels(nn.Module):
    """Shifted convolutions with gates that predict each pixel from those above and before."""

    width: int
    layers: int
    levels: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        down = nn.Conv(self.width, (2, 3), padding=((2, -1), (1, 1)))(images)
        right = down + nn.Conv(self.width, (2, 1), padding=((1, 0), (1, -1)))(images)
        for _ in range(self.layers):
            down = self._gated(down, down, (2, 3), ((1, 0), (1, 1)), train)
            right = self._gated(right, down, (2, 2), ((1, 0), (1, 0)), train)
        return nn.Conv(self.levels, (1, 1))(nn.elu(right))

    def _gated(
        self,
        x: jax.Array,
        other: jax.Array,
        size: tuple[int, int],
        padding: tuple[tuple[int, int], tuple[int, int]],
        train: bool,
    ) -> jax.Array:
        y = nn.Conv(self.width, size, padding=padding)(jnp.concatenate([nn.elu(x), nn.elu(-x)], -1))
        y = nn.elu(y + nn.Dense(self.width)(nn.elu(other)))
        y = nn.Dropout(0.5, deterministic=not train)(y)
        return x + nn.glu(nn.Conv(2 * self.width, size, padding=padding)(y))


class ImageAutoencoder(nn.Module):
    """A convolutional variational autoencoder; its outputs are images and two moments."""

    widths: Sequence[int]
    latents: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> dict[str, jax.Array]:
        x = images
        for width in self.widths:
            x = nn.relu(nn.GroupNorm(16)(nn.Conv(width, (3, 3), strides=(2, 2))(x)))
        shape = x.shape
        mean, spread = (nn.Dense(self.latents)(x.reshape(shape[0], -1)) for _ in range(2))
        z = mean
        if train:
            drawn = jax.random.normal(self.make_rng("noise"), mean.shape, mean.dtype)
            z = mean + drawn * jnp.exp(0.5 * spread)
        x = nn.Dense(shape[1] * shape[2] * shape[3])(z).reshape(shape)
        for width in (*reversed(self.widths[:-1]), 3):
            x = nn.ConvTranspose(width, (3, 3), strides=(2, 2))(nn.relu(x))
        return {"images": x, "mean": mean, "spread": spread}


class Windows(nn.Module):
    """Attention within windows of an image that are shifted every second time, as in Swin."""

    patch: int
    window: int
    width: int
    heads: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> jax.Array:
        x = nn.Conv(self.width, (self.patch, self.patch), strides=(self.patch, self.patch))(images)
        for layer in range(self.layers):
            x = x + self._attention(nn.LayerNorm()(x), self.window // 2 * (layer % 2), train)
            hidden = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.width)(hidden)
        return nn.Dense(self.classes)(nn.LayerNorm()(x).mean(axis=(1, 2)))

    def _attention(self, x: jax.Array, shift: int, train: bool) -> jax.Array:
        rows, high, wide, width = x.shape
        size, (down, across) = self.window, (high // self.window, wide // self.window)
        x = jnp.roll(x, (-shift, -shift), axis=(1, 2))
        x = x.reshape(rows, down, size, across, size, width).swapaxes(2, 3)
        x = x.reshape(rows * down * across, size * size, width)
        x = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)(x)
        x = x.reshape(rows, down, across, size, size, width).swapaxes(2, 3)
        return jnp.roll(x.reshape(rows, high, wide, width), (shift, shift), axis=(1, 2))


class Video(nn.Module):
    """Convolutions over time and space; clips are [batch, frames, height, width, channels]."""

    widths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, clips: jax.Array, train: bool) -> jax.Array:
        x = clips
        for width in self.widths:
            x = nn.relu(norm(train)(nn.Conv(width, (3, 3, 3), use_bias=False)(x)))
            x = nn.relu(norm(train)(nn.Conv(width, (3, 3, 3), strides=(2, 2, 2))(x)))
        return nn.Dense(self.classes)(x.mean(axis=(1, 2, 3)))


class VolumeSegmenter(nn.Module):
    """A U-Net over volumes: convolutions in three dimensions, with group norms."""

    widths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, volumes: jax.Array, train: bool) -> jax.Array:
        del train
        x, skips = volumes, []
        for width in self.widths:
            x = self._block(x, width)
            skips.append(x)
            x = nn.Conv(width, (2, 2, 2), strides=(2, 2, 2))(x)
        x = self._block(x, 2 * self.widths[-1])
        for width, skip in zip(reversed(self.widths), reversed(skips), strict=True):
            x = nn.ConvTranspose(width, (2, 2, 2), strides=(2, 2, 2))(x)
            x = self._block(jnp.concatenate([x, skip], axis=-1), width)
        return nn.Conv(self.classes, (1, 1, 1))(x)

    def _block(self, x: jax.Array, width: int) -> jax.Array:
        for _ in range(2):
            x = nn.leaky_relu(nn.GroupNorm(8)(nn.Conv(width, (3, 3, 3))(x)))
        return x
