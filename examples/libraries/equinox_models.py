"""An MLP and a transformer in `equinox`, trained with optax.

Equinox's modules work on one example; `jax.vmap` adds the batch. A model is split into what is
trained and what is not by `eqx.partition`, the library's way to use `jax.jit` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.libraries.common import (
    Builder,
    Tree,
    adamw,
    cross_entropy,
    key,
    of,
    tokens,
    training,
)


def _split(make: Callable[[Any], Any]) -> tuple[Tree, Tree]:
    """The parameters' shapes and the rest of the model that `make(key)` builds."""
    import equinox as eqx

    model = eqx.filter_eval_shape(make, key())
    return eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))


def mlp(batch: int, inputs: int, width: int, outputs: int, depth: int) -> Step:
    """`eqx.nn.MLP` on [batch, inputs], classified into `outputs`."""
    import equinox as eqx
    import optax

    def make(key: Any) -> Any:
        return eqx.nn.MLP(inputs, outputs, width, depth, key=key)

    params, static = _split(make)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        del dropout_key
        model = eqx.combine(params, static)
        return cross_entropy(jax.vmap(model)(batch["x"]), batch["y"])

    data = {"x": of(batch, inputs), "y": tokens(batch)}
    return training(loss, params, data, optax.adamw(1e-3, weight_decay=1e-2))


def make_classes() -> Any:
    """The transformer's class; made in a function, for `equinox` may not be there."""
    import equinox as eqx

    class Block(eqx.Module):
        """Attention and an MLP, each behind a norm; x: [seq, d_model]."""

        attention: Any
        norms: list[Any]
        up: Any
        down: Any
        dropout: Any

        def __init__(self, d_model: int, heads: int, key: Any) -> None:
            keys = jax.random.split(key, 3)
            self.attention = eqx.nn.MultiheadAttention(heads, d_model, key=keys[0])
            self.norms = [eqx.nn.LayerNorm(d_model) for _ in range(2)]
            self.up = eqx.nn.Linear(d_model, 4 * d_model, key=keys[1])
            self.down = eqx.nn.Linear(4 * d_model, d_model, key=keys[2])
            self.dropout = eqx.nn.Dropout(0.1)

        def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
            normed = jax.vmap(self.norms[0])(x)
            mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), dtype=bool))
            x = x + self.attention(normed, normed, normed, mask=mask)
            hidden = jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.norms[1])(x)))
            return x + self.dropout(jax.vmap(self.down)(hidden), key=key)

    class Transformer(eqx.Module):
        """Token ids [seq] to logits [seq, vocabulary]."""

        embed: Any
        blocks: list[Any]
        norm: Any
        head: Any

        def __init__(
            self, vocabulary: int, d_model: int, heads: int, layers: int, key: Any
        ) -> None:
            keys = jax.random.split(key, layers + 2)
            self.embed = eqx.nn.Embedding(vocabulary, d_model, key=keys[0])
            self.head = eqx.nn.Linear(d_model, vocabulary, use_bias=False, key=keys[1])
            self.blocks = [Block(d_model, heads, each) for each in keys[2:]]
            self.norm = eqx.nn.LayerNorm(d_model)

        def __call__(self, ids: jax.Array, key: jax.Array) -> jax.Array:
            x = jax.vmap(self.embed)(ids)
            for block, each in zip(
                self.blocks, jax.random.split(key, len(self.blocks)), strict=True
            ):
                x = block(x, each)
            return jax.vmap(self.head)(jax.vmap(self.norm)(x))

    return Transformer


def transformer(batch: int, seq: int, **sizes: int) -> Step:
    """A causal transformer on `seq` + 1 tokens, of which the first `seq` go in."""
    import equinox as eqx

    made = make_classes()

    def make(key: Any) -> Any:
        return made(**sizes, key=key)

    params, static = _split(make)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        model = eqx.combine(params, static)
        ids = batch["ids"]
        keys = jax.random.split(dropout_key, ids.shape[0])
        return cross_entropy(jax.vmap(model)(ids[:, :-1], keys), ids[:, 1:])

    return training(loss, params, {"ids": tokens(batch, seq + 1)}, adamw())


NEEDS = ("equinox", "optax")
BUILDERS = (
    Builder(
        name="equinox_mlp",
        summary="eqx.nn.MLP with AdamW",
        needs=NEEDS,
        presets={
            "tiny": partial(mlp, 16, 64, 128, 40, 2),
            "default": partial(mlp, 1024, 784, 4096, 1000, 4),
        },
    ),
    Builder(
        name="equinox_transformer",
        summary="a transformer in equinox with AdamW",
        needs=NEEDS,
        presets={
            "tiny": partial(transformer, 8, 32, vocabulary=256, d_model=64, heads=8, layers=2),
            "default": partial(
                transformer, 16, 512, vocabulary=32000, d_model=1024, heads=16, layers=8
            ),
        },
    ),
)
