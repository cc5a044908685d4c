"""Models in `flax.nnx`, in the manner of flax's examples."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    """Attention and an MLP, their norms moved and scaled by a condition, as in DiT."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List(
            [nnx.LayerNorm(width, use_bias=False, use_scale=False, rngs=rngs) for _ in range(2)]
        )
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.condition = nnx.Linear(width, 6 * width, rngs=rngs)

    def __call__(self, x: jax.Array, condition: jax.Array) -> jax.Array:
        moved = self.condition(nnx.silu(condition))[:, None, :]
        shift, scale, gate, low, high, last = jnp.split(moved, 6, axis=-1)
        x = x + gate * self.attention(self.norms[0](x) * (1 + scale) + shift)
        hidden = nnx.gelu(self.up(self.norms[1](x) * (1 + high) + low))
        return x + last * self.down(hidden)


class DiffusionTransformer(nnx.Module):
    """The noise in patches of latents, given a time and a class."""

    def __init__(
        self, patch: int, channels: int, width: int, heads: int, layers: int, rngs: nnx.Rngs
    ) -> None:
        self.patch = nnx.Conv(channels, width, (patch, patch), strides=(patch, patch), rngs=rngs)
        self.times = nnx.Linear(256, width, rngs=rngs)
        self.classes = nnx.Embed(1001, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, heads, rngs) for _ in range(layers)])
        self.out = nnx.Linear(width, patch * patch * channels, rngs=rngs)

    def __call__(self, latents: jax.Array, times: jax.Array, classes: jax.Array) -> jax.Array:
        x = self.patch(latents)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        angles = times[:, None] * jnp.exp(-jnp.arange(128) / 14.0).astype(times.dtype)
        known = self.times(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))
        for block in self.blocks:
            x = block(x, known + self.classes(classes))
        return self.out(x)


class ConvNet(nnx.Module):
    """Convolutions with batch norms, pools and dropout, as in flax's mnist, but wider."""

    def __init__(self, widths: Sequence[int], classes: int, rngs: nnx.Rngs) -> None:
        pairs = list(zip((3, *widths[:-1]), widths, strict=True))
        self.convs = nnx.List([nnx.Conv(a, b, (3, 3), rngs=rngs) for a, b in pairs])
        self.norms = nnx.List([nnx.BatchNorm(b, rngs=rngs) for b in widths])
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(widths[-1], classes, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = images
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = nnx.max_pool(nnx.relu(norm(conv(x))), (2, 2), strides=(2, 2))
        return self.out(self.dropout(x.mean(axis=(1, 2))))


class Autoencoder(nnx.Module):
    """A variational autoencoder of dense layers, as in flax's vae."""

    def __init__(self, inputs: int, hidden: int, latents: int, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(inputs, hidden, rngs=rngs)
        self.mean = nnx.Linear(hidden, latents, rngs=rngs)
        self.spread = nnx.Linear(hidden, latents, rngs=rngs)
        self.down = nnx.Linear(latents, hidden, rngs=rngs)
        self.out = nnx.Linear(hidden, inputs, rngs=rngs)
        self.rngs = rngs

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        hidden = nnx.relu(self.up(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        drawn = jax.random.normal(self.rngs.noise(), mean.shape, mean.dtype)
        z = mean + drawn * jnp.exp(0.5 * spread)
        return {"x": self.out(nnx.relu(self.down(z))), "mean": mean, "spread": spread}


class Layer(nnx.Module):
    """Attention behind a norm and a gated MLP behind another."""

    def __init__(self, width: int, heads: int, hidden: int, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.RMSNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(
            heads, width, dropout_rate=0.1, decode=False, use_bias=False, rngs=rngs
        )
        self.gate, self.up = (
            nnx.Linear(width, hidden, use_bias=False, rngs=rngs) for _ in range(2)
        )
        self.down = nnx.Linear(hidden, width, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        mask = nnx.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + self.attention(self.norms[0](x), mask=mask)
        normed = self.norms[1](x)
        return x + self.down(nnx.silu(self.gate(normed)) * self.up(normed))


class ScannedText(nnx.Module):
    """A language model whose layers are one stack, scanned over and recomputed."""

    def __init__(
        self, vocabulary: int, width: int, heads: int, hidden: int, layers: int, rngs: nnx.Rngs
    ) -> None:
        @nnx.split_rngs(splits=layers)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def stack(rngs: nnx.Rngs) -> Layer:
            return Layer(width, heads, hidden, rngs)

        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)
        self.layers = stack(rngs)
        self.norm = nnx.RMSNorm(width, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        @nnx.remat
        def run(layer: Layer, x: jax.Array) -> jax.Array:
            return layer(x)

        x = self.embed(jnp.pad(ids[:, :-1], ((0, 0), (1, 0))))
        return self.embed.attend(self.norm(run(self.layers, x)))


class Recurrent(nnx.Module):
    """A language model of two LSTMs."""

    def __init__(self, vocabulary: int, width: int, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)
        self.first, self.second = (
            nnx.RNN(nnx.OptimizedLSTMCell(width, width, rngs=rngs), rngs=rngs) for _ in range(2)
        )
        self.out = nnx.Linear(width, vocabulary, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        return self.out(self.second(self.first(self.embed(ids))))
