"""GAT: a training step of MetaDist's graph attention network (appendix A.2, table 4), with Adam.

One graph attention layer over a dense adjacency matrix: there is no batch, so not even data
parallelism applies. Four sizes; the published counts are those of `heads` square projections of
24576. Heads are averaged, as in a network's last layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.models.common import Model, Tree, of, training


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes: `hidden` is that of the nodes' features before and after the layer."""

    nodes: int
    hidden: int
    heads: int


_ONE = Config(nodes=1024, hidden=24576, heads=1)
PRESETS = {
    "paper": replace(_ONE, heads=8),
    "paper_4gpu": replace(_ONE, heads=4),
    "paper_2gpu": replace(_ONE, heads=2),
    "paper_1gpu": _ONE,
    "tiny": Config(nodes=64, hidden=32, heads=8),
}


def graph_attention(weights: Tree, features: jax.Array, adjacency: jax.Array) -> jax.Array:
    """features: [nodes, in]; adjacency: bool [nodes, nodes], true at a neighbour of a row's node.

    Returns [nodes, out], the mean of the heads.
    """
    projected = jnp.einsum("ni,hio->hno", features, weights["kernel"])
    own = jnp.einsum("hno,ho->hn", projected, weights["attend_from"])
    other = jnp.einsum("hno,ho->hn", projected, weights["attend_to"])
    scores = jax.nn.leaky_relu(own[:, :, None] + other[:, None, :], 0.2)
    scores = jnp.where(adjacency[None], scores, -1e30)
    share = jax.nn.softmax(scores, axis=-1)
    return jnp.mean(jnp.einsum("hnm,hmo->hno", share, projected), axis=0)


def loss(params: Tree, batch: Tree) -> jax.Array:
    """Mean squared error of the nodes' features after the layer."""
    out = jax.nn.elu(graph_attention(params, batch["features"], batch["adjacency"]))
    return jnp.mean(jnp.square(out - batch["targets"]))


def param_shapes(config: Config) -> Tree:
    """The projection of every head and the two halves of its attention vector."""
    heads, size = config.heads, config.hidden
    return {
        "kernel": of(heads, size, size),
        "attend_from": of(heads, size),
        "attend_to": of(heads, size),
    }


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""
    features = of(config.nodes, config.hidden)
    batch = {
        "features": features,
        "adjacency": of(config.nodes, config.nodes, dtype=jnp.bool_),
        "targets": features,
    }
    return training(loss, param_shapes(config), batch)


MODEL = Model(
    name="gat",
    summary="MetaDist's graph attention network, training with Adam",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper": 4.83e9, "paper_4gpu": 2.42e9, "paper_2gpu": 1.21e9, "paper_1gpu": 0.6e9},
    has_scan=False,
)
lower = MODEL.lower
