"""The Gemma-1 transformer of `t2b` and `t7b`: the layers of `examples.gemma`, and two more things.

Keys and values may have heads of their own, and the layers may be scanned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from examples import gemma
from examples.forms import Step
from examples.models.common import Tree, attend, layers_of, of, through, training


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(gemma.Config):
    """Sizes as in `gemma.Config`; `hidden` is that of the gate alone, as the up projection's.

    With `shared_keys` all heads share one key and one value (multi-query attention).
    """

    shared_keys: bool
    scan: bool = False


def attention(weights: Tree, x: jax.Array) -> jax.Array:
    """Causal attention with rotary positions; x: [batch, seq, d_model]."""
    if weights["key"].ndim == 2:
        return gemma.attention(weights, x)
    query = gemma.rotary(jnp.einsum("bsd,dnh->bsnh", x, weights["query"]))
    key = gemma.rotary(jnp.einsum("btd,dnh->btnh", x, weights["key"]))
    value = jnp.einsum("btd,dnh->btnh", x, weights["value"])
    position = jnp.arange(x.shape[1])
    mixed = attend(query, key, value, position[:, None] >= position[None, :])
    return jnp.einsum("bsnh,nhd->bsd", mixed, weights["output"])


def layer(x: jax.Array, weights: Tree) -> tuple[jax.Array, None]:
    """One transformer layer with residual connections."""
    x = x + attention(weights, gemma.rms_norm(x, weights["attention_norm"]))
    return x + gemma.mlp(weights, gemma.rms_norm(x, weights["mlp_norm"])), None


def loss(config: Config, params: Tree, batch: Tree) -> jax.Array:
    """Mean cross-entropy of the next token; tokens and targets: int32 [batch, seq]."""
    table = params["embedding"]
    x = table[batch["tokens"]] * jnp.asarray(config.d_model**0.5, table.dtype)
    block = jax.checkpoint(layer) if config.remat else layer
    x, _ = through(block, x, params["layers"])
    x = gemma.rms_norm(x, params["final_norm"])
    logits = jnp.einsum("bsd,vd->bsv", x, table).astype(jnp.float32)
    chosen = batch["targets"][..., None] == jnp.arange(config.vocab)
    picked = jnp.sum(jnp.where(chosen, logits, 0.0), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def param_shapes(config: Config) -> Tree:
    """The parameters, in the dtype of the configuration."""
    shapes = gemma.param_shapes(config, jnp.dtype(config.dtype))
    one: Tree = shapes["layers"][0]
    if not config.shared_keys:
        one = {**one, "key": one["query"], "value": one["query"]}
    return {**shapes, "layers": layers_of(config.layers, one, scan=config.scan)}


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""
    tokens = of(config.batch, config.seq, dtype=jnp.int32)
    batch = {"tokens": tokens, "targets": tokens}
    return training(partial(loss, config), param_shapes(config), batch, config)
