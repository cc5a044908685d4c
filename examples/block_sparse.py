"""A training step of a transformer with block-sparse attention, unrolled in Python.

A block of queries looks at the blocks of keys next to it and at the first ones, one after another,
with the softmax put together as it goes. Each step is a jitted helper that calls others, so a small
module holds a large program: its calls unfold to many times its ops.

    python examples/block_sparse.py --preset small --form bytecode -o block_sparse.mlirbc
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

if __name__ == "__main__":  # run as a file: find the sibling module
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.forms import Step, run_cli

Params = dict[str, jax.Array]
Running = tuple[jax.Array, jax.Array, jax.Array]
"""What a block of queries has seen: weighted values, sum of weights, largest score."""
NEVER = -1e30


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the model: `blocks` of `block` positions each.

    Queries look at the `window` blocks up to their own, and at the first `shared` blocks.
    """

    layers: int
    blocks: int
    block: int
    window: int
    shared: int
    d_model: int
    heads: int
    batch: int
    learning_rate: float = 0.01

    def seen(self, query: int) -> list[int]:
        """The blocks of keys that a block of queries looks at, in order."""
        near = range(max(0, query - self.window + 1), query + 1)
        return sorted({*range(min(self.shared, query + 1)), *near})


PRESETS = {
    "tiny": Config(layers=2, blocks=4, block=8, window=2, shared=1, d_model=32, heads=4, batch=8),
    "small": Config(
        layers=4, blocks=16, block=64, window=4, shared=2, d_model=512, heads=8, batch=16
    ),
    "large": Config(
        layers=6, blocks=128, block=128, window=13, shared=4, d_model=2048, heads=16, batch=16
    ),
}


@jax.jit
def scores(query: jax.Array, key: jax.Array) -> jax.Array:
    """Scaled products of a block of queries with one of keys, both [batch, heads, block, size]."""
    return jnp.einsum("bnsh,bnth->bnst", query, key) * query.shape[-1] ** -0.5


@jax.jit
def causal(found: jax.Array) -> jax.Array:
    """Scores of a block with itself, less those of later positions."""
    size = found.shape[-1]
    return jnp.where(jnp.tril(jnp.ones((size, size), dtype=bool)), found, NEVER)


@jax.jit
def fold(running: Running, found: jax.Array, value: jax.Array) -> Running:
    """Take one more block of values into what is seen."""
    total, weight, largest = running
    peak = jnp.maximum(largest, jnp.max(found, axis=-1))
    kept, share = jnp.exp(largest - peak), jnp.exp(found - peak[..., None])
    total = total * kept[..., None] + jnp.einsum("bnst,bnth->bnsh", share, value)
    return total, weight * kept + jnp.sum(share, axis=-1), peak


@jax.jit
def look(running: Running, query: jax.Array, key: jax.Array, value: jax.Array) -> Running:
    """A block of queries looks at an earlier block."""
    return fold(running, scores(query, key), value)


@jax.jit
def look_at_itself(running: Running, query: jax.Array, key: jax.Array, value: jax.Array) -> Running:
    """A block of queries looks at its own block."""
    return fold(running, causal(scores(query, key)), value)


@partial(jax.jit, static_argnums=(3, 4))
def attend(query: jax.Array, key: jax.Array, value: jax.Array, seen: int, block: int) -> jax.Array:
    """One block of queries at the end of `seen` blocks; [batch, heads, positions, size] each."""
    blank = query[..., 0] * 0
    running = (query * 0, blank, blank + NEVER)
    for number in range(seen):
        here = slice(number * block, (number + 1) * block)
        step = look_at_itself if number == seen - 1 else look
        running = step(running, query, key[:, :, here], value[:, :, here])
    total, weight, _ = running
    return total / weight[..., None]


@partial(jax.jit, static_argnums=0)
def attention(config: Config, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """All blocks of queries; [batch, heads, positions, size] each."""
    size = config.block

    def part(x: jax.Array, number: int) -> jax.Array:
        return x[:, :, number * size : (number + 1) * size]

    found = []
    for number in range(config.blocks):
        seen = config.seen(number)
        keys = jnp.concatenate([part(key, other) for other in seen], axis=2)
        values = jnp.concatenate([part(value, other) for other in seen], axis=2)
        found.append(attend(part(query, number), keys, values, len(seen), size))
    return jnp.concatenate(found, axis=2)


@jax.jit
def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm over the last dimension."""
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * scale


def layer(config: Config, params: Params, x: jax.Array) -> jax.Array:
    """Attention and a perceptron, each beside a residual; x: [batch, positions, d_model]."""
    normed = norm(x, params["norm1"])
    query, key, value = (
        jnp.einsum("bsd,dnh->bnsh", normed, params[name]) for name in ("query", "key", "value")
    )
    x = x + jnp.einsum("bnsh,nhd->bsd", attention(config, query, key, value), params["out"])
    hidden = jax.nn.gelu(norm(x, params["norm2"]) @ params["up"])
    return x + hidden @ params["down"]


def loss(config: Config, params: list[Params], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of the last layer; x and y: [batch, positions, d_model]."""
    for weights in params:
        x = layer(config, weights, x)
    return jnp.mean(jnp.square(x - y))


def make_step(config: Config) -> Step:
    """The jitted step with its parameters donated, and its arguments."""

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def sgd_step(
        params: list[Params], x: jax.Array, y: jax.Array
    ) -> tuple[list[Params], jax.Array]:
        value, grads = jax.value_and_grad(partial(loss, config))(params, x, y)
        update = jax.tree.map(lambda p, g: p - config.learning_rate * g, params, grads)
        return update, value

    width, heads = config.d_model, config.heads
    head = (heads, width // heads)
    shapes = {
        "norm1": of(width),
        "query": of(width, *head),
        "key": of(width, *head),
        "value": of(width, *head),
        "out": of(*head, width),
        "norm2": of(width),
        "up": of(width, 4 * width),
        "down": of(4 * width, width),
    }
    params = [dict(shapes) for _ in range(config.layers)]
    data = of(config.batch, config.blocks * config.block, width)
    return Step(function=jax.jit(sgd_step, donate_argnums=(0,)), arguments=(params, data, data))


def lower(config: Config) -> jax.stages.Lowered:
    """The StableHLO of the step; no array is allocated."""
    return make_step(config).lower()


if __name__ == "__main__":
    steps = {name: partial(make_step, config) for name, config in PRESETS.items()}
    sys.exit(run_cli("Lower a training step with block-sparse attention.", steps, "small"))
