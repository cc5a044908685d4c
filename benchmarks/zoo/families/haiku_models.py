"""Models in `haiku`: its own nets, and the blocks that its examples are made of."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp


class MobileNet(hk.Module):
    """`hk.nets.MobileNetV1`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def __call__(self, train: bool, images: jax.Array) -> jax.Array:
        return hk.nets.MobileNetV1(num_classes=self.classes)(images, is_training=train)


class Characters(hk.Module):
    """A stack of LSTMs over characters, unrolled by a scan, as in haiku's rnn."""

    def __init__(self, levels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.levels, self.hidden, self.layers = levels, hidden, layers

    def __call__(self, train: bool, ids: jax.Array) -> jax.Array:
        del train
        core = hk.DeepRNN([hk.LSTM(self.hidden) for _ in range(self.layers)])
        x = hk.Embed(self.levels, self.hidden)(ids)
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(ids.shape[0]), time_major=False)
        return hk.Linear(self.levels)(out)


class Transformer(hk.Module):
    """A causal transformer of `hk.MultiHeadAttention`, as in haiku's transformer."""

    def __init__(self, vocabulary: int, heads: int, size: int, layers: int) -> None:
        super().__init__()
        self.vocabulary, self.heads, self.size, self.layers = vocabulary, heads, size, layers

    def __call__(self, train: bool, ids: jax.Array) -> jax.Array:
        width, rate = self.heads * self.size, 0.1 if train else 0.0
        x = hk.Embed(self.vocabulary, width)(ids)
        mask = jnp.tril(jnp.ones((1, 1, ids.shape[1], ids.shape[1])))
        scale = hk.initializers.VarianceScaling(2 / self.layers)
        for _ in range(self.layers):
            attention = hk.MultiHeadAttention(self.heads, self.size, w_init=scale, model_size=width)
            normed = self._norm(x)
            x = x + self._dropout(rate, attention(normed, normed, normed, mask=mask))
            hidden = jax.nn.gelu(hk.Linear(4 * width)(self._norm(x)))
            x = x + self._dropout(rate, hk.Linear(width)(hidden))
        return hk.Linear(self.vocabulary)(self._norm(x))

    def _norm(self, x: jax.Array) -> jax.Array:
        return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)

    def _dropout(self, rate: float, x: jax.Array) -> jax.Array:
        return hk.dropout(hk.next_rng_key(), rate, x) if rate else x


class Quantized(hk.Module):
    """Images through the nearest of some codes and back, with `hk.nets.VectorQuantizer`."""

    def __init__(self, width: int, codes: int, size: int) -> None:
        super().__init__()
        self.width, self.codes, self.size = width, codes, size

    def __call__(self, train: bool, images: jax.Array) -> jax.Array:
        x = images
        for width in (self.width // 2, self.width):
            x = jax.nn.relu(hk.Conv2D(width, 4, stride=2)(x))
        x = x + hk.Conv2D(self.width, 1)(jax.nn.relu(hk.Conv2D(self.width, 3)(x)))
        coder = hk.nets.VectorQuantizerEMA(self.size, self.codes, 0.25, 0.99)
        x = coder(hk.Conv2D(self.size, 1)(x), is_training=train)["quantize"].astype(images.dtype)
        x = jax.nn.relu(hk.Conv2D(self.width, 3)(x))
        x = jax.nn.relu(hk.Conv2DTranspose(self.width // 2, 4, stride=2)(x))
        return hk.Conv2DTranspose(3, 4, stride=2)(x)
