"""A small transformer whose values are to be named, and the lines on which they are made."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import PurePath
from typing import Any

import jax
import jax.numpy as jnp

Tree = dict[str, Any]
LAYERS, BATCH, SEQUENCE, WIDTH, HEADS, HIDDEN, VOCABULARY = 2, 8, 32, 64, 4, 256, 512


def shapes() -> Tree:
    def shape(*sizes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.float32)

    head = WIDTH // HEADS
    layer = {
        "wq": shape(WIDTH, HEADS, head),
        "wk": shape(WIDTH, HEADS, head),
        "wv": shape(WIDTH, HEADS, head),
        "wo": shape(HEADS, head, WIDTH),
        "up": {"kernel": shape(WIDTH, HIDDEN), "bias": shape(HIDDEN)},
        "down": shape(HIDDEN, WIDTH),
    }
    return {
        "embed": shape(VOCABULARY, WIDTH),
        "layers": [dict(layer) for _ in range(LAYERS)],
        "head": shape(WIDTH, VOCABULARY),
    }


def attention(p: Tree, x: jax.Array) -> jax.Array:
    query = jnp.einsum("bsd,dhk->bshk", x, p["wq"])
    key = jnp.einsum("bsd,dhk->bshk", x, p["wk"])
    value = jnp.einsum("bsd,dhk->bshk", x, p["wv"])
    scores = jnp.einsum("bqhk,bshk->bhqs", query, key)
    mixed = jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores), value)
    return jnp.einsum("bqhk,hkd->bqd", mixed, p["wo"])


def mlp(p: Tree, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ p["up"]["kernel"] + p["up"]["bias"]) @ p["down"]


def forward(params: Tree, tokens: jax.Array) -> jax.Array:
    stream = params["embed"][tokens]
    for p in params["layers"]:
        stream = stream + attention(p, stream)
        stream = stream + mlp(p, stream)
    logits: jax.Array = stream @ params["head"]
    return logits


def train_step(params: Tree, batch: Tree) -> tuple[Tree, Tree]:
    def loss(params: Tree) -> tuple[jax.Array, jax.Array]:
        logits = forward(params, batch["tokens"])
        own = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["targets"][..., None], -1)
        return -jnp.mean(own), logits

    (value, logits), gradients = jax.value_and_grad(loss, has_aux=True)(params)
    updated = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    return updated, {"loss": value, "logits": logits}


@cache
def module() -> bytes:
    """The training step, as text with locations."""
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32)
    lowered = jax.jit(train_step, donate_argnums=0).lower(
        shapes(), {"tokens": tokens, "targets": tokens}
    )
    return lowered.as_text(debug_info=True).encode()


def line(function: Any, text: str) -> str:
    """Where a function says `text`, as locations are told."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (first + index for index, one in enumerate(lines) if text in one)
    return f"{PurePath(__file__).name}:{number}"
