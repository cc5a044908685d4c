"""What the models share: shapes of parameters, layers in a row, norms, training steps.

Parameters are pytrees of `jax.ShapeDtypeStruct`, so nothing is allocated to lower a model of any
size. A model's layers are either a list of trees (unrolled) or one tree with a leading dimension
(scanned); `through` runs both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from examples import gemma
from examples.forms import Step

Tree = dict[str, Any]
Block = Callable[[Any, Any], tuple[Any, Any]]
EPSILON = 1e-5
ADAM = gemma.PRESETS["tiny"]
"""Only the fields of Adam are read from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the registry.

    `presets` are its sizes by name; `params` gives the shapes of the parameters of one and
    `make_step` the jitted step. `published` holds, by preset, how many parameters the paper
    states, where it does.
    """

    name: str
    summary: str
    presets: Mapping[str, Any]
    params: Callable[[Any], Tree]
    make_step: Callable[[Any], Step]
    published: Mapping[str, float]
    has_scan: bool

    def config(self, preset: str, *, scan: bool = False) -> Any:
        """A preset, with its layers scanned if asked; ValueError where the model cannot."""
        chosen = self.presets[preset]
        if scan and not self.has_scan:
            raise ValueError(f"{self.name} has no layers to scan over")
        return replace(chosen, scan=True) if scan else chosen

    def lower(self, config: Any) -> jax.stages.Lowered:
        """The StableHLO of the step; no array is allocated."""
        return self.make_step(config).lower()

    def count(self, config: Any) -> int:
        """How many parameters the model has."""
        return count(self.params(config))


def count(params: Any) -> int:
    """The number of elements of a tree of shapes."""
    return sum(int(leaf.size) for leaf in jax.tree.leaves(params))


def of(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """A tensor that is only a shape."""
    return jax.ShapeDtypeStruct(shape, dtype)


def dense(inputs: int, outputs: int) -> Tree:
    """The shapes of a linear layer with a bias."""
    return {"kernel": of(inputs, outputs), "bias": of(outputs)}


def norm(features: int) -> Tree:
    """The shapes of a norm's scale and shift."""
    return {"scale": of(features), "bias": of(features)}


def layers_of(number: int, layer: Tree, *, scan: bool) -> Any:
    """`number` copies of a layer's shapes: a list, or stacked along a leading dimension."""
    if not scan:
        return [jax.tree.map(lambda leaf: leaf, layer) for _ in range(number)]
    return jax.tree.map(lambda leaf: of(number, *leaf.shape, dtype=leaf.dtype), layer)


def through(block: Block, carry: Any, layers: Any) -> tuple[Any, Any]:
    """Run `block(carry, layer) -> (carry, out)` over a list of layers or a stacked tree.

    Returns the last carry and the outs, as a list or stacked like the layers.
    """
    if not isinstance(layers, list):
        return jax.lax.scan(block, carry, layers)
    outs = []
    for layer in layers:
        carry, out = block(carry, layer)
        outs.append(out)
    return carry, outs


def paired(left: Any, right: Any) -> Any:
    """Two kinds of layers side by side, for `through`."""
    if isinstance(left, list):
        return list(zip(left, right, strict=True))
    return left, right


def apply_dense(weights: Tree, x: jax.Array) -> jax.Array:
    """A linear layer on the last dimension of x."""
    return x @ weights["kernel"] + weights["bias"]


def apply_norm(weights: Tree, x: jax.Array) -> jax.Array:
    """Layer norm over the last dimension of x."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * weights["scale"] + weights["bias"]


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """[batch, seq, features] -> [batch, seq, heads, features / heads]."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def merge_heads(x: jax.Array) -> jax.Array:
    """[batch, seq, heads, size] -> [batch, seq, heads * size]."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Multi-head attention, softmax in f32.

    query: [batch, s, heads, size]; key and value: [batch, t, heads, size], or without `heads`
    where all share them; mask: [s, t], true where a query may look. Returns the shape of query.
    """
    shared = "" if key.ndim == 3 else "n"
    scores = jnp.einsum(f"bsnh,bt{shared}h->bnst", query, key).astype(jnp.float32)
    scores = scores * (query.shape[-1] ** -0.5)
    if mask is not None:
        scores = jnp.where(mask[None, None], scores, -1e30)
    share = jax.nn.softmax(scores, axis=-1).astype(query.dtype)
    return jnp.einsum(f"bnst,bt{shared}h->bsnh", share, value)


def training(
    loss: Callable[[Tree, Tree], jax.Array],
    params: Tree,
    batch: Tree,
    settings: gemma.Config = ADAM,
) -> Step:
    """A training step with Adam: (state, batch) -> (state, loss), the state donated."""

    def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        value, grads = jax.value_and_grad(loss)(state["params"], batch)
        return gemma.adam(settings, state, grads), value

    def moments() -> Tree:
        return jax.tree.map(lambda leaf: of(*leaf.shape), params)

    state = {
        "params": params,
        "mu": moments(),
        "nu": moments(),
        "count": of(dtype=jnp.int32),
    }
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(state, batch))
