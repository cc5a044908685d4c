"""Steps for the known layouts: bare jax, shapes only, no hint of a sharding anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step, serialize
from examples.models.common import Tree, attend, of, training


def module_of(step: Step) -> bytes:
    """The bytecode of a step."""
    return serialize(step, "bytecode")


def forward(function: Callable[..., Any], *arguments: Any) -> Step:
    """A step that computes and learns nothing."""
    return Step(function=jax.jit(function), arguments=arguments)


def typed(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    """A tensor that is only a shape."""
    return of(*shape, dtype=jnp.dtype(dtype))


def mlp_weights(width: int, hidden: int, dtype: str = "float32") -> Tree:
    """The two weights of a block of a multi-layer perceptron."""
    return {"up": typed(dtype, width, hidden), "down": typed(dtype, hidden, width)}


def mlp(weights: Tree, x: jax.Array) -> jax.Array:
    """Two products around a non-linearity, and a residual connection; x: [..., width]."""
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def mlp_stack(params: Tree, x: jax.Array) -> jax.Array:
    """The blocks one after the other."""
    for weights in params["layers"]:
        x = mlp(weights, x)
    return x


def mlp_training(*, layers: int, width: int, hidden: int, tokens: int) -> Step:
    """A training step with Adam of a stack of MLP blocks on `tokens` rows."""

    def loss(params: Tree, batch: Tree) -> jax.Array:
        return jnp.mean(jnp.square(mlp_stack(params, batch["x"]) - batch["y"]))

    rows = of(tokens, width)
    params = {"layers": [mlp_weights(width, hidden) for _ in range(layers)]}
    return training(loss, params, {"x": rows, "y": rows})


def attention_weights(width: int, heads: int, size: int, *, shared: bool, dtype: str) -> Tree:
    """Projections of attention; with `shared` all heads have one key and one value."""
    queries = typed(dtype, width, heads, size)
    keys = typed(dtype, width, size) if shared else queries
    return {
        "query": queries,
        "key": keys,
        "value": keys,
        "output": typed(dtype, heads, size, width),
    }


def attention(weights: Tree, x: jax.Array) -> jax.Array:
    """Attention of every position to every other; x: [batch, seq, width]."""
    heads = "" if weights["key"].ndim == 2 else "n"
    query = jnp.einsum("bsd,dnh->bsnh", x, weights["query"])
    key = jnp.einsum(f"bsd,d{heads}h->bs{heads}h", x, weights["key"])
    value = jnp.einsum(f"bsd,d{heads}h->bs{heads}h", x, weights["value"])
    return x + jnp.einsum("bsnh,nhd->bsd", attend(query, key, value), weights["output"])


def attention_forward(
    *,
    layers: int,
    batch: int,
    seq: int,
    width: int,
    heads: int,
    size: int,
    shared: bool,
    hidden: int = 0,
) -> Step:
    """Attention layers, each with an MLP behind it where `hidden` says so, in bf16."""

    def run(params: Tree, x: jax.Array) -> jax.Array:
        for weights in params["layers"]:
            x = attention(weights, x)
            x = mlp(weights, x) if "up" in weights else x
        return x

    one = attention_weights(width, heads, size, shared=shared, dtype="bfloat16")
    if hidden:
        one |= mlp_weights(width, hidden, "bfloat16")
    return forward(run, {"layers": [one] * layers}, typed("bfloat16", batch, seq, width))


def experts(weights: Tree, x: jax.Array) -> jax.Array:
    """A mixture of experts with dense dispatch; x: [groups, rows, width].

    Each row goes to its best expert, which has room for a fixed number of rows of a group; masks of
    ones and zeros carry rows to their places and back (GShard).
    """
    rows = x.shape[1]
    count = weights["gate"].shape[1]
    room = rows // count
    share = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, weights["gate"]).astype(jnp.float32))
    chosen = jax.nn.one_hot(jnp.argmax(share, axis=-1), count)
    place = (jnp.cumsum(chosen, axis=1) - 1.0) * chosen
    mask = chosen[..., None] * jax.nn.one_hot(place.astype(jnp.int32), room)
    mask = mask.astype(x.dtype)
    inside = jnp.einsum("gsec,gsd->egcd", mask, x)
    hidden = jax.nn.gelu(jnp.einsum("egcd,edf->egcf", inside, weights["up"]))
    outside = jnp.einsum("egcf,efd->egcd", hidden, weights["down"])
    combine = mask * jnp.max(share, axis=-1).astype(x.dtype)[..., None, None]
    return x + jnp.einsum("egcd,gsec->gsd", outside, combine)


def experts_forward(*, groups: int, rows: int, width: int, hidden: int, count: int) -> Step:
    """Two layers of a mixture of `count` experts, in bf16."""

    def run(params: Tree, x: jax.Array) -> jax.Array:
        for weights in params["layers"]:
            x = experts(weights, x)
        return x

    one = {
        "gate": typed("bfloat16", width, count),
        "up": typed("bfloat16", count, width, hidden),
        "down": typed("bfloat16", count, hidden, width),
    }
    return forward(run, {"layers": [one] * 2}, typed("bfloat16", groups, rows, width))


def classifier_training(*, rows: int, features: int, hidden: int, classes: int) -> Step:
    """A training step with plain gradient descent of a classifier with two hidden layers."""

    def loss(params: Tree, batch: Tree) -> jax.Array:
        x = batch["x"]
        for weights in params["hidden"]:
            x = jax.nn.relu(x @ weights)
        logits = x @ params["output"]
        chosen = batch["label"][:, None] == jnp.arange(classes)
        picked = jnp.sum(jnp.where(chosen, logits, 0.0), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    def train_step(params: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        value, slopes = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, slopes), value

    params = {
        "hidden": [of(features, hidden), of(hidden, hidden)],
        "output": of(hidden, classes),
    }
    batch = {"x": of(rows, features), "label": of(rows, dtype=jnp.int32)}
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(params, batch))
