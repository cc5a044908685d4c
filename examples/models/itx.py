"""ITX: one step of an inference transformer with a KV cache (TOAST section 5.1).

Multi-query attention, rotary positions, tied embedding; `phase` is "decode" (one token for each
sequence, at a position given at run time) or "prefill" (the whole prompt). The cache is donated
and has room for the prompt and for what is generated.

The paper states 5 billion parameters and these sizes: vocabulary 50257, sequence 1024, prompt 1024,
32 heads, 32 layers, hidden 4096, d_model 2048. The sizes do not give the figure: with heads of 64
they make 0.92 billion (1.19 with a gated MLP). `paper` has the sizes as stated; `paper_5b` keeps
the vocabulary, layers and heads and takes d_model 4096 and hidden 16384, which makes 5.05 billion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from examples import gemma
from examples.forms import Step
from examples.models.common import Model, Tree, attend, layers_of, of, paired, through


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the model, of one batch, and of the cache: `prompt` + `seq` positions."""

    vocab: int
    prompt: int
    seq: int
    heads: int
    head_dim: int
    layers: int
    hidden: int
    d_model: int
    batch: int
    dtype: str = "bfloat16"
    phase: Literal["decode", "prefill"] = "decode"
    scan: bool = False


_PAPER = Config(
    vocab=50257,
    prompt=1024,
    seq=1024,
    heads=32,
    head_dim=64,
    layers=32,
    hidden=4096,
    d_model=2048,
    batch=256,
)
_TINY = Config(
    vocab=128,
    prompt=16,
    seq=16,
    heads=8,
    head_dim=16,
    layers=2,
    hidden=96,
    d_model=64,
    batch=8,
    dtype="float32",
)
PRESETS = {
    "paper": _PAPER,
    "paper_prefill": replace(_PAPER, phase="prefill", batch=16),
    "paper_5b": replace(_PAPER, d_model=4096, hidden=16384),
    "tiny": _TINY,
    "tiny_prefill": replace(_TINY, phase="prefill"),
}


def rotary(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotate the halves of the last dimension; x: [batch, s, ..., head]; positions: int32 [s]."""
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions.astype(jnp.float32)[:, None] * frequency[None, :]
    angle = angle.reshape((1, x.shape[1]) + (1,) * (x.ndim - 3) + (half,))
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [
        first * jnp.cos(angle) - second * jnp.sin(angle),
        second * jnp.cos(angle) + first * jnp.sin(angle),
    ]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def attention(
    weights: Tree, cache: Tree, x: jax.Array, position: jax.Array
) -> tuple[jax.Array, Tree]:
    """Attend to the cache and extend it; x: [batch, s, d_model] at `position` and after.

    cache: {"key", "value"}: [batch, prompt + seq, head]. More than one position at a time is a
    prompt, which sees itself alone.
    """
    length = x.shape[1]
    positions = position + jnp.arange(length)
    query = rotary(jnp.einsum("bsd,dnh->bsnh", x, weights["query"]), positions)
    key = rotary(jnp.einsum("bsd,dh->bsh", x, weights["key"]), positions)
    value = jnp.einsum("bsd,dh->bsh", x, weights["value"])
    cache = {
        name: jax.lax.dynamic_update_slice_in_dim(cache[name], new, position, axis=1)
        for name, new in (("key", key), ("value", value))
    }
    if length == 1:
        key, value = cache["key"], cache["value"]
    seen = jnp.arange(key.shape[1])
    mixed = attend(query, key, value, seen[None, :] <= positions[:, None])
    return jnp.einsum("bsnh,nhd->bsd", mixed, weights["output"]), cache


def layer(
    position: jax.Array, x: jax.Array, weights_and_cache: tuple[Tree, Tree]
) -> tuple[jax.Array, Tree]:
    """One layer with residual connections; returns its new cache beside x."""
    weights, cache = weights_and_cache
    mixed, cache = attention(weights, cache, gemma.rms_norm(x, weights["attention_norm"]), position)
    x = x + mixed
    normed = gemma.rms_norm(x, weights["mlp_norm"])
    hidden = jax.nn.gelu(jnp.einsum("bsd,df->bsf", normed, weights["up"]))
    return x + jnp.einsum("bsf,fd->bsd", hidden, weights["down"]), cache


def serve(
    params: Tree, cache: Tree, tokens: jax.Array, position: jax.Array
) -> tuple[Tree, jax.Array]:
    """tokens: int32 [batch, s] from `position` on -> new cache, logits f32 [batch, vocab]."""
    table = params["embedding"]
    x, layers = through(
        partial(layer, position), table[tokens], paired(params["layers"], cache["layers"])
    )
    last = gemma.rms_norm(x[:, -1:], params["final_norm"])[:, 0]
    logits = jnp.einsum("bd,vd->bv", last, table).astype(jnp.float32)
    return {"layers": layers}, logits


def param_shapes(config: Config) -> Tree:
    """The parameters, in the dtype of the configuration."""
    d, f, n, h = config.d_model, config.hidden, config.heads, config.head_dim

    def typed(*shape: int) -> jax.ShapeDtypeStruct:
        return of(*shape, dtype=jnp.dtype(config.dtype))

    one = {
        "attention_norm": typed(d),
        "query": typed(d, n, h),
        "key": typed(d, h),
        "value": typed(d, h),
        "output": typed(n, h, d),
        "mlp_norm": typed(d),
        "up": typed(d, f),
        "down": typed(f, d),
    }
    return {
        "embedding": typed(config.vocab, d),
        "layers": layers_of(config.layers, one, scan=config.scan),
        "final_norm": typed(d),
    }


def make_step(config: Config) -> Step:
    """The jitted step, its cache donated, and its arguments."""
    length = config.prompt + config.seq
    entry = of(config.batch, length, config.head_dim, dtype=jnp.dtype(config.dtype))
    one = {"key": entry, "value": entry}
    cache = {"layers": layers_of(config.layers, one, scan=config.scan)}
    position = of(dtype=jnp.int32)

    def decode_step(
        params: Tree, cache: Tree, tokens: jax.Array, position: jax.Array
    ) -> tuple[Tree, jax.Array]:
        return serve(params, cache, tokens[:, None], position)

    def prefill_step(params: Tree, cache: Tree, tokens: jax.Array) -> tuple[Tree, jax.Array]:
        return serve(params, cache, tokens, jnp.int32(0))

    if config.phase == "prefill":
        function = jax.jit(prefill_step, donate_argnums=(1,))
        tokens = of(config.batch, config.prompt, dtype=jnp.int32)
        return Step(function=function, arguments=(param_shapes(config), cache, tokens))
    function = jax.jit(decode_step, donate_argnums=(1,))
    tokens = of(config.batch, dtype=jnp.int32)
    return Step(function=function, arguments=(param_shapes(config), cache, tokens, position))


MODEL = Model(
    name="itx",
    summary="inference transformer with a KV cache, one decode step or a prefill",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper_5b": 5e9},
    has_scan=True,
)
lower = MODEL.lower
