"""A training step of a Gemma-style transformer with Adam, in plain JAX.

Multi-query attention with rotary positions, gated-GeLU MLP, RMSNorm, tied head, cross-entropy.
Layers are unrolled, one dict of weights each. Nothing is allocated to lower it:

    python examples/gemma.py --preset gemma_2b --form text -o gemma_2b.mlir
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

if __name__ == "__main__":  # run as a file: find the sibling module
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.forms import Step, run_cli

Tree = dict[str, Any]
EPSILON = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the model and of one batch, and the settings of Adam.

    `dtype` is that of parameters and activations; moments, norms, softmax and loss are f32.
    `remat` recomputes each layer in the backward pass instead of keeping its activations.
    """

    layers: int
    d_model: int
    hidden: int
    heads: int
    head_dim: int
    vocab: int
    batch: int
    seq: int
    dtype: str = "float32"
    remat: bool = False
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.95
    adam_epsilon: float = 1e-8


PRESETS = {
    "tiny": Config(
        layers=2, d_model=64, hidden=128, heads=4, head_dim=16, vocab=256, batch=8, seq=32
    ),
    "demo": Config(
        layers=4, d_model=256, hidden=1024, heads=4, head_dim=64, vocab=2048, batch=16, seq=128
    ),
    "gemma_2b": Config(
        layers=18,
        d_model=2048,
        hidden=16384,
        heads=8,
        head_dim=256,
        vocab=256128,
        batch=32,
        seq=2048,
        dtype="bfloat16",
    ),
}
PRESETS["gemma_2b_remat"] = replace(PRESETS["gemma_2b"], remat=True)


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """x: [batch, seq, d]; scale: [d], stored as an offset from one."""
    wide = x.astype(jnp.float32)
    variance = jnp.mean(wide * wide, axis=-1, keepdims=True)
    normed = wide * jax.lax.rsqrt(variance + EPSILON)
    return (normed * (1.0 + scale.astype(jnp.float32))).astype(x.dtype)


def rotary(x: jax.Array) -> jax.Array:
    """Rotate the two halves of the last dimension by position; x: [batch, seq, ..., head]."""
    seq, half = x.shape[1], x.shape[-1] // 2
    frequency = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(seq, dtype=jnp.float32)[:, None] * frequency[None, :]
    angle = angle.reshape((1, seq) + (1,) * (x.ndim - 3) + (half,))
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [
        first * jnp.cos(angle) - second * jnp.sin(angle),
        second * jnp.cos(angle) + first * jnp.sin(angle),
    ]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def attention(weights: Tree, x: jax.Array) -> jax.Array:
    """Causal multi-query attention: every head has its queries, all share keys and values."""
    query = rotary(jnp.einsum("bsd,dnh->bsnh", x, weights["query"]))
    key = rotary(jnp.einsum("btd,dh->bth", x, weights["key"]))
    value = jnp.einsum("btd,dh->bth", x, weights["value"])
    scores = jnp.einsum("bsnh,bth->bnst", query, key).astype(jnp.float32)
    scores = scores * (query.shape[-1] ** -0.5)
    position = jnp.arange(x.shape[1])
    causal = position[:, None] >= position[None, :]
    scores = jnp.where(causal[None, None], scores, -1e30)
    share = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bnst,bth->bsnh", share, value)
    return jnp.einsum("bsnh,nhd->bsd", mixed, weights["output"])


def mlp(weights: Tree, x: jax.Array) -> jax.Array:
    """Gated GeLU: two projections to the hidden size, one back."""
    gate = jax.nn.gelu(jnp.einsum("bsd,df->bsf", x, weights["gate"]))
    up = jnp.einsum("bsd,df->bsf", x, weights["up"])
    return jnp.einsum("bsf,fd->bsd", gate * up, weights["down"])


def layer(weights: Tree, x: jax.Array) -> jax.Array:
    """One transformer layer with residual connections."""
    x = x + attention(weights, rms_norm(x, weights["attention_norm"]))
    return x + mlp(weights, rms_norm(x, weights["mlp_norm"]))


def loss(config: Config, params: Tree, batch: Tree) -> jax.Array:
    """Mean cross-entropy of the next token; tokens and targets: int32 [batch, seq]."""
    table = params["embedding"]
    x = table[batch["tokens"]] * jnp.asarray(config.d_model**0.5, table.dtype)
    block = jax.checkpoint(layer) if config.remat else layer
    for weights in params["layers"]:
        x = block(weights, x)
    x = rms_norm(x, params["final_norm"])
    logits = jnp.einsum("bsd,vd->bsv", x, table).astype(jnp.float32)
    normaliser = jax.nn.logsumexp(logits, axis=-1)
    # A compare and a sum instead of a gather: it stays local when the vocabulary is sharded.
    chosen = batch["targets"][..., None] == jnp.arange(config.vocab)
    picked = jnp.sum(jnp.where(chosen, logits, 0.0), axis=-1)
    return jnp.mean(normaliser - picked)


def adam(config: Config, state: Tree, grads: Tree) -> Tree:
    """The state after one update; moments are f32 whatever the parameters are."""
    count = state["count"] + 1
    steps = count.astype(jnp.float32)
    correct1 = 1.0 - config.beta1**steps
    correct2 = 1.0 - config.beta2**steps
    wide = jax.tree.map(lambda g: g.astype(jnp.float32), grads)
    mu = jax.tree.map(lambda m, g: config.beta1 * m + (1 - config.beta1) * g, state["mu"], wide)
    nu = jax.tree.map(lambda v, g: config.beta2 * v + (1 - config.beta2) * g * g, state["nu"], wide)

    def update(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        delta = (m / correct1) / (jnp.sqrt(v / correct2) + config.adam_epsilon)
        return (p.astype(jnp.float32) - config.learning_rate * delta).astype(p.dtype)

    params = jax.tree.map(update, state["params"], mu, nu)
    return {"params": params, "mu": mu, "nu": nu, "count": count}


def step(config: Config, state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
    """One training step: the new state and the loss before it."""
    value, grads = jax.value_and_grad(partial(loss, config))(state["params"], batch)
    return adam(config, state, grads), value


def param_shapes(config: Config, dtype: Any) -> Tree:
    """The parameters as `jax.ShapeDtypeStruct`s of `dtype`."""

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    d, f, n, h = config.d_model, config.hidden, config.heads, config.head_dim

    def one_layer() -> Tree:
        return {
            "attention_norm": of(d),
            "query": of(d, n, h),
            "key": of(d, h),
            "value": of(d, h),
            "output": of(n, h, d),
            "mlp_norm": of(d),
            "gate": of(d, f),
            "up": of(d, f),
            "down": of(f, d),
        }

    return {
        "embedding": of(config.vocab, d),
        "layers": [one_layer() for _ in range(config.layers)],
        "final_norm": of(d),
    }


def arguments(config: Config) -> tuple[Tree, Tree]:
    """The (state, batch) that `step` takes, as shapes."""
    state = {
        "params": param_shapes(config, jnp.dtype(config.dtype)),
        "mu": param_shapes(config, jnp.float32),
        "nu": param_shapes(config, jnp.float32),
        "count": jax.ShapeDtypeStruct((), jnp.int32),
    }
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    return state, {"tokens": tokens, "targets": tokens}


def make_step(config: Config) -> Step:
    """The jitted step with its state donated, and its arguments."""

    def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        return step(config, state, batch)

    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=arguments(config))


def lower(config: Config) -> jax.stages.Lowered:
    """The StableHLO of the step; no array is allocated."""
    return make_step(config).lower()


if __name__ == "__main__":
    steps = {name: partial(make_step, config) for name, config in PRESETS.items()}
    sys.exit(run_cli("Lower a Gemma-style training step.", steps, "demo"))
