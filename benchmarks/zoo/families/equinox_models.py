"""Models in `equinox`, each for one example."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp


class Encoder(eqx.Module):
    """A block of attention and an MLP; x: [seq, width]."""

    attention: eqx.nn.MultiheadAttention
    norms: list[eqx.nn.LayerNorm]
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, width: int, heads: int, hidden: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(heads, width, dropout_p=0.1, key=keys[0])
        self.norms = [eqx.nn.LayerNorm(width) for _ in range(2)]
        self.up = eqx.nn.Linear(width, hidden, key=keys[1])
        self.down = eqx.nn.Linear(hidden, width, key=keys[2])
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        one, other = (None, None) if key is None else jax.random.split(key)
        x = jax.vmap(self.norms[0])(x + self.attention(x, x, x, key=one))
        hidden = jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(x)))
        return jax.vmap(self.norms[1])(x + self.dropout(hidden, key=other))


class SentenceEncoder(eqx.Module):
    """Tokens to the logits of a class, as in equinox's example of BERT."""

    embed: eqx.nn.Embedding
    places: jax.Array
    blocks: list[Encoder]
    out: eqx.nn.Linear

    def __init__(
        self,
        vocabulary: int,
        seq: int,
        width: int,
        heads: int,
        hidden: int,
        layers: int,
        classes: int,
        key: jax.Array,
    ) -> None:
        keys = jax.random.split(key, layers + 3)
        self.embed = eqx.nn.Embedding(vocabulary, width, key=keys[0])
        self.places = jax.random.normal(keys[1], (seq, width))
        self.out = eqx.nn.Linear(width, classes, key=keys[2])
        self.blocks = [Encoder(width, heads, hidden, each) for each in keys[3:]]

    def __call__(self, ids: jax.Array, key: jax.Array | None) -> jax.Array:
        x = jax.vmap(self.embed)(ids) + self.places
        for number, block in enumerate(self.blocks):
            x = block(x, None if key is None else jax.random.fold_in(key, number))
        return self.out(x[0])


class ScoreMixer(eqx.Module):
    """The score of a noisy image by an MLP-mixer, as in equinox's example of diffusion."""

    into: eqx.nn.Conv2d
    out: eqx.nn.ConvTranspose2d
    patches: list[eqx.nn.MLP]
    channels: list[eqx.nn.MLP]
    norms: list[eqx.nn.LayerNorm]

    def __init__(
        self, size: int, patch: int, width: int, hidden: int, layers: int, key: jax.Array
    ) -> None:
        count = (size // patch) ** 2
        keys = jax.random.split(key, 2 + 2 * layers)
        self.into = eqx.nn.Conv2d(4, width, patch, stride=patch, key=keys[0])
        self.out = eqx.nn.ConvTranspose2d(width, 3, patch, stride=patch, key=keys[1])
        self.patches = [
            eqx.nn.MLP(count, count, hidden, 1, key=each) for each in keys[2 : 2 + layers]
        ]
        self.channels = [
            eqx.nn.MLP(width, width, hidden, 1, key=each) for each in keys[2 + layers :]
        ]
        self.norms = [eqx.nn.LayerNorm((width, count)) for _ in range(2 * layers)]

    def __call__(self, time: jax.Array, image: jax.Array, key: jax.Array | None) -> jax.Array:
        del key
        when = jnp.broadcast_to(time, (1, *image.shape[1:])).astype(image.dtype)
        x = self.into(jnp.concatenate([image, when]))
        shape = x.shape
        x = x.reshape(shape[0], -1)
        for number, (patch, channel) in enumerate(zip(self.patches, self.channels, strict=True)):
            x = x + jax.vmap(patch)(self.norms[2 * number](x))
            x = x + jax.vmap(channel, 1, 1)(self.norms[2 * number + 1](x))
        return self.out(x.reshape(shape))


class Gated(eqx.Module):
    """A GRU over a series and a head on its last state, as in equinox's example of RNNs."""

    cell: eqx.nn.GRUCell
    out: eqx.nn.Linear
    hidden: int = eqx.field(static=True)

    def __init__(self, inputs: int, hidden: int, classes: int, key: jax.Array) -> None:
        one, other = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(inputs, hidden, key=one)
        self.out = eqx.nn.Linear(hidden, classes, key=other)
        self.hidden = hidden

    def __call__(self, series: jax.Array, key: jax.Array | None) -> jax.Array:
        del key

        def step(state: jax.Array, value: jax.Array) -> tuple[jax.Array, None]:
            return self.cell(value, state), None

        state, _ = jax.lax.scan(step, jnp.zeros(self.hidden, series.dtype), series)
        return self.out(state)


class PatchTransformer(eqx.Module):
    """An image in patches through `Encoder`s, as in equinox's example of ViT."""

    patch: eqx.nn.Conv2d
    blocks: list[Encoder]
    out: eqx.nn.Linear

    def __init__(
        self,
        patch: int,
        width: int,
        heads: int,
        hidden: int,
        layers: int,
        classes: int,
        key: jax.Array,
    ) -> None:
        keys = jax.random.split(key, layers + 2)
        self.patch = eqx.nn.Conv2d(3, width, patch, stride=patch, key=keys[0])
        self.out = eqx.nn.Linear(width, classes, key=keys[1])
        self.blocks = [Encoder(width, heads, hidden, each) for each in keys[2:]]

    def __call__(self, image: jax.Array, key: jax.Array | None) -> jax.Array:
        x = self.patch(image)
        x = x.reshape(x.shape[0], -1).T
        for number, block in enumerate(self.blocks):
            x = block(x, None if key is None else jax.random.fold_in(key, number))
        return self.out(x.mean(axis=0))


class Convolved(eqx.Module):
    """Convolutions with group norms and a dense head."""

    convs: list[eqx.nn.Conv2d]
    norms: list[eqx.nn.GroupNorm]
    out: eqx.nn.Linear

    def __init__(self, widths: tuple[int, ...], classes: int, key: jax.Array) -> None:
        keys = jax.random.split(key, len(widths) + 1)
        pairs = zip((3, *widths[:-1]), widths, keys[1:], strict=True)
        self.convs = [eqx.nn.Conv2d(a, b, 3, stride=2, padding=1, key=each) for a, b, each in pairs]
        self.norms = [eqx.nn.GroupNorm(32, width) for width in widths]
        self.out = eqx.nn.Linear(widths[-1], classes, key=keys[0])

    def __call__(self, image: jax.Array, key: jax.Array | None) -> jax.Array:
        del key
        x = image
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = jax.nn.silu(norm(conv(x)))
        return self.out(x.mean(axis=(1, 2)))


class GatedBlock(eqx.Module):
    """Causal attention and a gated MLP over one text, each behind a norm."""

    attention: eqx.nn.MultiheadAttention
    gate: eqx.nn.Linear
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    norms: list[eqx.nn.RMSNorm]

    def __init__(self, width: int, heads: int, hidden: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 4)
        self.attention = eqx.nn.MultiheadAttention(heads, width, dropout_p=0.1, key=keys[0])
        self.gate = eqx.nn.Linear(width, hidden, use_bias=False, key=keys[1])
        self.up = eqx.nn.Linear(width, hidden, use_bias=False, key=keys[2])
        self.down = eqx.nn.Linear(hidden, width, use_bias=False, key=keys[3])
        self.norms = [eqx.nn.RMSNorm(width) for _ in range(2)]

    def __call__(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        y = jax.vmap(self.norms[0])(x)
        causal = jnp.tril(jnp.ones((len(x), len(x)), dtype=bool))
        x = x + self.attention(y, y, y, mask=causal, key=key)
        y = jax.vmap(self.norms[1])(x)
        gated = jax.nn.silu(jax.vmap(self.gate)(y)) * jax.vmap(self.up)(y)
        return x + jax.vmap(self.down)(gated)


class Language(eqx.Module):
    """A causal language model: every layer sees one text, `jax.vmap` the batch."""

    table: eqx.nn.Embedding
    blocks: list[GatedBlock]
    norm: eqx.nn.RMSNorm
    head: eqx.nn.Linear

    def __init__(
        self, vocabulary: int, width: int, heads: int, hidden: int, layers: int, key: jax.Array
    ) -> None:
        keys = jax.random.split(key, layers + 2)
        self.table = eqx.nn.Embedding(vocabulary, width, key=keys[0])
        self.blocks = [GatedBlock(width, heads, hidden, each) for each in keys[2:]]
        self.norm = eqx.nn.RMSNorm(width)
        self.head = eqx.nn.Linear(width, vocabulary, use_bias=False, key=keys[1])

    def __call__(self, ids: jax.Array, key: jax.Array | None) -> jax.Array:
        x = jax.vmap(self.table)(ids)
        keys = [None] * len(self.blocks) if key is None else jax.random.split(key, len(self.blocks))
        for block, each in zip(self.blocks, keys, strict=True):
            x = block(x, each)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


class PooledAttention(eqx.Module):
    """Attention over a set of readings, whose mean a small MLP classifies."""

    into: eqx.nn.Linear
    layers: list[eqx.nn.MultiheadAttention]
    out: eqx.nn.MLP

    def __init__(
        self, inputs: int, width: int, heads: int, layers: int, classes: int, key: jax.Array
    ) -> None:
        keys = jax.random.split(key, layers + 2)
        self.into = eqx.nn.Linear(inputs, width, key=keys[0])
        self.layers = [eqx.nn.MultiheadAttention(heads, width, key=each) for each in keys[2:]]
        self.out = eqx.nn.MLP(width, classes, 2 * width, 2, key=keys[1])

    def __call__(self, readings: jax.Array, key: jax.Array | None) -> jax.Array:
        del key
        x = jax.vmap(self.into)(readings)
        for layer in self.layers:
            x = jnp.tanh(x + layer(x, x, x))
        return self.out(x.mean(axis=0))
