"""GNS: a training step of a graph network simulator (TOAST section 5.1).

Encode, 24 message-passing steps, decode each node and the global. One step updates the edges from
(edge, sender, receiver, global), the nodes from (node, messages sent, messages received, global)
and the global from (sums of nodes and edges, global), each by an MLP with layer norm and a residual
connection: the full graph network block, with gathers and segment sums.

The paper gives 2048 nodes, 8192 to 65536 edges, 24 steps, 3 linear layers, hidden size 1024, latent
size 2048 and 875 million parameters. Three hidden linear layers and a projection to the latent
size in all three processors give 875 million. (Node and edge processors alone give 466 million with
three hidden layers and 413 million with two, so the global one is needed to reach the figure.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.models.common import (
    Model,
    Tree,
    apply_dense,
    apply_norm,
    dense,
    layers_of,
    norm,
    of,
    through,
    training,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the graph and of the network; `features` is that of each of its raw inputs."""

    nodes: int
    edges: int
    steps: int
    hidden: int
    hidden_layers: int
    latent: int
    features: int
    outputs: int
    scan: bool = False


_PAPER = Config(
    nodes=2048,
    edges=65536,
    steps=24,
    hidden=1024,
    hidden_layers=3,
    latent=2048,
    features=32,
    outputs=8,
)
PRESETS = {
    "paper": _PAPER,
    "paper_8k_edges": replace(_PAPER, edges=8192),
    "tiny": Config(
        nodes=64,
        edges=256,
        steps=2,
        hidden=32,
        hidden_layers=3,
        latent=48,
        features=16,
        outputs=8,
    ),
}


def apply_mlp(weights: Tree, x: jax.Array) -> jax.Array:
    """Hidden layers with ReLU, a linear layer, and a layer norm where there is one."""
    for hidden in weights["hidden"]:
        x = jax.nn.relu(apply_dense(hidden, x))
    x = apply_dense(weights["output"], x)
    return apply_norm(weights["norm"], x) if "norm" in weights else x


def with_global(world: jax.Array, *parts: jax.Array) -> jax.Array:
    """The parts, each [n, latent], and the global [latent] beside every row of them."""
    repeated = jnp.broadcast_to(world, (parts[0].shape[0], world.shape[0]))
    return jnp.concatenate([*parts, repeated], axis=-1)


def message_passing(
    senders: jax.Array, receivers: jax.Array, carry: Tree, weights: Tree
) -> tuple[Tree, None]:
    """One step; carry holds nodes [n, latent], edges [e, latent] and the global [latent]."""
    nodes, edges, world = carry["nodes"], carry["edges"], carry["global"]
    number = nodes.shape[0]
    edges = edges + apply_mlp(
        weights["edge"], with_global(world, edges, nodes[senders], nodes[receivers])
    )
    sent = jax.ops.segment_sum(edges, senders, number)
    received = jax.ops.segment_sum(edges, receivers, number)
    nodes = nodes + apply_mlp(weights["node"], with_global(world, nodes, sent, received))
    sums = jnp.concatenate([jnp.sum(nodes, axis=0), jnp.sum(edges, axis=0), world])
    return {
        "nodes": nodes,
        "edges": edges,
        "global": world + apply_mlp(weights["global"], sums),
    }, None


def loss(params: Tree, batch: Tree) -> jax.Array:
    """Mean squared error of the nodes' outputs."""
    carry = {
        kind: apply_mlp(params["encoder"][kind], batch[kind])
        for kind in ("nodes", "edges", "global")
    }
    block = partial(message_passing, batch["senders"], batch["receivers"])
    carry, _ = through(block, carry, params["steps"])
    predicted = apply_mlp(params["decoder"], with_global(carry["global"], carry["nodes"]))
    return jnp.mean(jnp.square(predicted - batch["targets"]))


def param_shapes(config: Config) -> Tree:
    """Encoders, the processors of every step, and the decoder."""
    latent = config.latent

    def mlp(inputs: int) -> Tree:
        sizes = [inputs] + [config.hidden] * config.hidden_layers
        return {
            "hidden": [dense(a, b) for a, b in pairwise(sizes)],
            "output": dense(config.hidden, latent),
            "norm": norm(latent),
        }

    decoder = {**mlp(2 * latent), "output": dense(config.hidden, config.outputs)}
    del decoder["norm"]
    step = {"edge": mlp(4 * latent), "node": mlp(4 * latent), "global": mlp(3 * latent)}
    return {
        "encoder": {kind: mlp(config.features) for kind in ("nodes", "edges", "global")},
        "steps": layers_of(config.steps, step, scan=config.scan),
        "decoder": decoder,
    }


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""
    batch = {
        "nodes": of(config.nodes, config.features),
        "edges": of(config.edges, config.features),
        "global": of(config.features),
        "senders": of(config.edges, dtype=jnp.int32),
        "receivers": of(config.edges, dtype=jnp.int32),
        "targets": of(config.nodes, config.outputs),
    }
    return training(loss, param_shapes(config), batch)


MODEL = Model(
    name="gns",
    summary="graph network simulator, training with Adam",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper": 875e6, "paper_8k_edges": 875e6},
    has_scan=True,
)
lower = MODEL.lower
