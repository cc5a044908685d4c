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


class TemporalConvolution(nn.Module):
    """Residual pairs of causal convolutions whose reach doubles from pair to pair (TCN)."""

    width: int
    layers: int
    outputs: int

    @nn.compact
    def __call__(self, series: jax.Array, train: bool) -> jax.Array:
        x = nn.Dense(self.width)(series)
        for layer in range(self.layers):
            y = x
            for _ in range(2):
                y = nn.Conv(self.width, (3,), kernel_dilation=2**layer, padding="CAUSAL")(y)
                y = nn.Dropout(0.1, deterministic=not train)(nn.relu(y))
            x = nn.relu(x + y)
        return nn.Dense(self.outputs)(x)


class SelectiveText(nn.Module):
    """A state space whose steps depend on the input, computed by an associative scan."""

    vocabulary: int
    width: int
    states: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        del train
        x = nn.Embed(self.vocabulary, self.width)(ids)
        for _ in range(self.layers):
            x = x + self._selected(nn.RMSNorm()(x))
        return nn.Dense(self.vocabulary, use_bias=False)(nn.RMSNorm()(x))

    def _selected(self, x: jax.Array) -> jax.Array:
        inner, gate = jnp.split(nn.Dense(2 * self.width, use_bias=False)(x), 2, axis=-1)
        inner = nn.silu(
            nn.Conv(self.width, (4,), feature_group_count=self.width, padding="CAUSAL")(inner)
        )
        step = nn.softplus(nn.Dense(self.width)(inner))
        read, write = jnp.split(nn.Dense(2 * self.states, use_bias=False)(inner), 2, axis=-1)
        decay = jnp.exp(-step)[..., None] * jnp.linspace(0.5, 0.99, self.states, dtype=x.dtype)
        given = (step * inner)[..., None] * write[..., None, :]
        _, state = jax.lax.associative_scan(_after, (decay, given), axis=1)
        return nn.Dense(self.width)((state * read[..., None, :]).sum(-1) * nn.silu(gate))


def _after(
    one: tuple[jax.Array, jax.Array], two: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return one[0] * two[0], one[1] * two[0] + two[1]


class LongConvolution(nn.Module):
    """Convolutions as long as the text, by Fourier transforms, between gates (Hyena)."""

    vocabulary: int
    width: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        del train
        x, seq = nn.Embed(self.vocabulary, self.width)(ids), ids.shape[1]
        for layer in range(self.layers):
            value, gate = jnp.split(nn.Dense(2 * self.width)(nn.LayerNorm()(x)), 2, axis=-1)
            filters = self.param(f"filter_{layer}", nn.initializers.normal(0.02), (seq, self.width))
            reached = jnp.fft.rfft(value.astype(jnp.float32), 2 * seq, axis=1)
            reached = reached * jnp.fft.rfft(filters.astype(jnp.float32), 2 * seq, axis=0)
            y = jnp.fft.irfft(reached, 2 * seq, axis=1)[:, :seq].astype(x.dtype)
            x = x + nn.Dense(self.width)(y * nn.silu(gate))
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))
