"""Recurrent models in `flax.linen`: LSTMs and GRUs as in its examples, and others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from benchmarks.zoo.families.linen import shifted


class BothWays(nn.Module):
    """A classifier of sentences by an LSTM in each direction, as in flax's sst2."""

    vocabulary: int
    width: int
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(ids)
        x = nn.Dropout(0.5, deterministic=not train)(x)
        forth, back = (nn.RNN(nn.OptimizedLSTMCell(self.hidden)) for _ in range(2))
        x = nn.Bidirectional(forth, back)(x)
        weights = jax.nn.softmax(nn.Dense(1)(nn.tanh(nn.Dense(self.hidden)(x))), axis=1)
        return nn.Dense(self.classes)(jnp.sum(weights * x, axis=1))


class Repeater(nn.Module):
    """An LSTM reads, another writes from its last state, as in flax's seq2seq."""

    vocabulary: int
    hidden: int

    @nn.compact
    def __call__(self, source: jax.Array, target: jax.Array, train: bool) -> jax.Array:
        embed = nn.Embed(self.vocabulary, self.hidden)
        reader = nn.RNN(nn.LSTMCell(self.hidden), return_carry=True)
        state, _ = reader(embed(source))
        y = nn.RNN(nn.LSTMCell(self.hidden))(embed(shifted(target)), initial_carry=state)
        y = nn.Dropout(0.1, deterministic=not train)(y)
        return nn.Dense(self.vocabulary)(y)


class GatedText(nn.Module):
    """A language model of stacked GRUs."""

    vocabulary: int
    hidden: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.hidden)(shifted(ids))
        for _ in range(self.layers):
            x = nn.Dropout(0.2, deterministic=not train)(nn.RNN(nn.GRUCell(self.hidden))(x))
        return nn.Dense(self.vocabulary)(x)


class LinearRecurrence(nn.Module):
    """A diagonal state space, run by an associative scan, with a gate behind it."""

    states: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        decay = jnp.exp(-jax.nn.softplus(self.param("rate", nn.initializers.ones, (self.states,))))
        fed = nn.Dense(self.states)(x)
        kept = jnp.broadcast_to(decay.astype(fed.dtype), fed.shape)

        def joined(
            one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]
        ) -> tuple[jax.Array, jax.Array]:
            return one[0] * other[0], one[1] * other[0] + other[1]

        _, states = jax.lax.associative_scan(joined, (kept, fed), axis=1)
        return nn.Dense(width)(states) * nn.sigmoid(nn.Dense(width)(x))


class StateSpaceText(nn.Module):
    """A language model of linear recurrences and MLPs."""

    vocabulary: int
    width: int
    states: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(shifted(ids))
        for _ in range(self.layers):
            x = x + LinearRecurrence(self.states)(nn.LayerNorm()(x))
            hidden = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
            x = x + nn.Dropout(0.1, deterministic=not train)(nn.Dense(self.width)(hidden))
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


class Waves(nn.Module):
    """Dilated causal convolutions over samples of sound, gated, with skips, as in WaveNet."""

    width: int
    layers: int
    levels: int

    @nn.compact
    def __call__(self, samples: jax.Array, train: bool) -> jax.Array:
        del train
        x = nn.Embed(self.levels, self.width)(shifted(samples))
        skips = jnp.zeros((), x.dtype)
        for layer in range(self.layers):
            wide = nn.Conv(
                2 * self.width, (2,), kernel_dilation=(2 ** (layer % 8),), padding="CAUSAL"
            )(x)
            one, other = jnp.split(wide, 2, axis=-1)
            out = nn.tanh(one) * nn.sigmoid(other)
            skips = skips + nn.Dense(self.width)(out)
            x = x + nn.Dense(self.width)(out)
        return nn.Dense(self.levels)(nn.relu(nn.Dense(self.width)(nn.relu(skips))))


class Conformer(nn.Module):
    """Attention, a depthwise convolution and two half MLPs over frames of speech."""

    width: int
    heads: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, frames: jax.Array, train: bool) -> jax.Array:
        x = frames[..., None]
        for _ in range(2):
            x = nn.relu(nn.Conv(self.width // 4, (3, 3), strides=(2, 2))(x))
        x = nn.Dense(self.width)(x.reshape(*x.shape[:2], -1))
        for _ in range(self.layers):
            x = x + 0.5 * self._mlp(x, train)
            attention = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
            x = x + attention(nn.LayerNorm()(x))
            x = x + self._convolution(x, train)
            x = nn.LayerNorm()(x + 0.5 * self._mlp(x, train))
        return nn.Dense(self.classes)(x)

    def _mlp(self, x: jax.Array, train: bool) -> jax.Array:
        hidden = nn.swish(nn.Dense(4 * self.width)(nn.LayerNorm()(x)))
        hidden = nn.Dropout(0.1, deterministic=not train)(hidden)
        return nn.Dense(self.width)(hidden)

    def _convolution(self, x: jax.Array, train: bool) -> jax.Array:
        gated = nn.glu(nn.Dense(2 * self.width)(nn.LayerNorm()(x)))
        mixed = nn.Conv(self.width, (31,), feature_group_count=self.width)(gated)
        mixed = nn.BatchNorm(use_running_average=not train)(mixed)
        return nn.Dense(self.width)(nn.swish(mixed))
