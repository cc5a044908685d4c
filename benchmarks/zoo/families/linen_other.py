"""Models in `flax.linen` of neither text nor images: tables, games, rays, and graphs by jraph."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import jraph
from flax import linen as nn


class Recommender(nn.Module):
    """Tables of embeddings, their products by pairs, and two MLPs, as in DLRM."""

    tables: int
    rows: int
    width: int
    bottom: Sequence[int]
    top: Sequence[int]

    @nn.compact
    def __call__(self, numbers: jax.Array, ids: jax.Array, train: bool) -> jax.Array:
        del train
        x = numbers
        for width in (*self.bottom, self.width):
            x = nn.relu(nn.Dense(width)(x))
        found = [nn.Embed(self.rows, self.width)(ids[:, table]) for table in range(self.tables)]
        all_of = jnp.stack([x, *found], axis=1)
        products = jnp.einsum("bid,bjd->bij", all_of, all_of)
        one, other = jnp.triu_indices(self.tables + 1, 1)
        y = jnp.concatenate([x, products[:, one, other]], axis=-1)
        for width in self.top:
            y = nn.relu(nn.Dense(width)(y))
        return nn.Dense(1)(y)


class ActorCritic(nn.Module):
    """Convolutions over frames of a game, then a policy and a value, as in flax's ppo."""

    actions: int
    hidden: int

    @nn.compact
    def __call__(self, frames: jax.Array, train: bool) -> dict[str, jax.Array]:
        del train
        x = frames / 255.0
        for width, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = nn.relu(nn.Conv(width, (size, size), strides=(stride, stride), padding="VALID")(x))
        x = nn.relu(nn.Dense(self.hidden)(x.reshape(x.shape[0], -1)))
        return {"policy": nn.log_softmax(nn.Dense(self.actions)(x)), "value": nn.Dense(1)(x)}


class Rays(nn.Module):
    """An MLP of points along rays, summed up into colours, as in NeRF."""

    width: int
    layers: int
    samples: int
    frequencies: int

    @nn.compact
    def __call__(self, origins: jax.Array, directions: jax.Array, train: bool) -> jax.Array:
        depths = jnp.linspace(2.0, 6.0, self.samples)
        if train:
            shape = (origins.shape[0], self.samples)
            depths = depths + 0.01 * jax.random.uniform(self.make_rng("noise"), shape)
        points = origins[:, None, :] + directions[:, None, :] * depths[..., None]
        scaled = points[..., None, :] * 2.0 ** jnp.arange(self.frequencies)[:, None]
        coded = jnp.concatenate([jnp.sin(scaled), jnp.cos(scaled)], -1)
        start = coded.reshape(*points.shape[:2], -1).astype(origins.dtype)
        x = start
        for layer in range(self.layers):
            x = jnp.concatenate([x, start], -1) if layer == self.layers // 2 else x
            x = nn.relu(nn.Dense(self.width)(x))
        density, colour = nn.softplus(nn.Dense(1)(x))[..., 0], nn.sigmoid(nn.Dense(3)(x))
        passed = jnp.exp(-jnp.cumsum(density, axis=1) + density)
        weights = passed * (1.0 - jnp.exp(-density))
        return jnp.sum(weights[..., None] * colour, axis=1)


class Towers(nn.Module):
    """Users and items by an embedding and an MLP each, and how well all pairs of a batch match."""

    users: int
    items: int
    width: int
    hidden: int

    @nn.compact
    def __call__(self, user: jax.Array, item: jax.Array, train: bool) -> jax.Array:
        sides = []
        for count, ids in ((self.users, user), (self.items, item)):
            x = nn.Embed(count, self.width)(ids)
            x = nn.Dropout(0.1, deterministic=not train)(nn.relu(nn.Dense(self.hidden)(x)))
            x = nn.Dense(self.width)(x)
            sides.append(x / jnp.linalg.norm(x, axis=-1, keepdims=True))
        return 20.0 * sides[0] @ sides[1].T


class Mlp(nn.Module):
    """Dense layers with a norm behind the last."""

    widths: Sequence[int]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.relu(nn.Dense(width)(x))
        return nn.LayerNorm()(x)


class Graph(nn.Module):
    """A graph network of jraph, with MLPs of flax for its updates, as in flax's ogbg_molpcba.

    `kind` is the name of a function of jraph; it has edges, nodes and, for some kinds, globals.
    """

    kind: str
    width: int
    steps: int
    outputs: int

    @nn.compact
    def __call__(
        self,
        nodes: jax.Array,
        edges: jax.Array,
        senders: jax.Array,
        receivers: jax.Array,
        train: bool,
    ) -> jax.Array:
        del train
        count = jnp.array([nodes.shape[0]]), jnp.array([edges.shape[0]])
        graph = jraph.GraphsTuple(
            nodes=nn.Dense(self.width)(nodes),
            edges=nn.Dense(self.width)(edges),
            globals=jnp.zeros((1, self.width), nodes.dtype),
            senders=senders,
            receivers=receivers,
            n_node=count[0],
            n_edge=count[1],
        )
        for _ in range(self.steps):
            fresh = self._network()(graph)
            if fresh.nodes.shape == graph.nodes.shape:
                fresh = fresh._replace(nodes=fresh.nodes + graph.nodes)
            graph = fresh
        if self.kind in ("DeepSets", "RelationNetwork"):
            return nn.Dense(self.outputs)(graph.globals)
        return nn.Dense(self.outputs)(graph.nodes)

    def _network(self) -> jraph.GraphNetwork:
        wide = (2 * self.width, self.width)
        edge = jraph.concatenated_args(Mlp(wide))
        node = jraph.concatenated_args(Mlp(wide))
        whole = jraph.concatenated_args(Mlp(wide))
        makers = {
            "GraphNetwork": lambda: jraph.GraphNetwork(edge, node, whole),
            "InteractionNetwork": lambda: jraph.InteractionNetwork(edge, node),
            "RelationNetwork": lambda: jraph.RelationNetwork(edge, node),
            "DeepSets": lambda: jraph.DeepSets(node, whole),
            "GraphConvolution": lambda: jraph.GraphConvolution(
                nn.Dense(self.width), add_self_edges=True
            ),
            "GAT": lambda: jraph.GAT(
                nn.Dense(self.width),
                lambda one, other, _: nn.leaky_relu(
                    nn.Dense(1)(jnp.concatenate([one, other], -1)), 0.2
                ),
            ),
        }
        return makers[self.kind]()


class SetTransformer(nn.Module):
    """Points attend to a few learned ones and back, so that a set of any size is cheap."""

    width: int
    heads: int
    induced: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, points: jax.Array, train: bool) -> jax.Array:
        del train
        x = nn.Dense(self.width)(points)
        for layer in range(self.layers):
            shape = (1, self.induced, self.width)
            start = self.param(f"induced_{layer}", nn.initializers.normal(0.02), shape)
            z = jnp.broadcast_to(start.astype(x.dtype), (x.shape[0], *shape[1:]))
            z = nn.LayerNorm()(z + nn.MultiHeadDotProductAttention(self.heads)(z, x))
            z = z + nn.Dense(self.width)(nn.relu(nn.Dense(2 * self.width)(z)))
            x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(self.heads)(x, z))
            x = x + nn.Dense(self.width)(nn.relu(nn.Dense(2 * self.width)(x)))
        return nn.Dense(self.classes)(x.max(axis=1))


class WideAndDeep(nn.Module):
    """Categories as embeddings for an MLP, and crossed for a linear model beside it."""

    buckets: int
    width: int
    hidden: Sequence[int]

    @nn.compact
    def __call__(self, categories: jax.Array, numbers: jax.Array, train: bool) -> jax.Array:
        del train
        fields = categories.shape[1]
        x = nn.Embed(self.buckets, self.width)(categories).reshape(categories.shape[0], -1)
        x = jnp.concatenate([x, numbers], axis=-1)
        for width in self.hidden:
            x = nn.relu(nn.Dense(width)(x))
        crossed = (categories[:, :-1] * 31 + categories[:, 1:]) % self.buckets
        wide = nn.Embed(self.buckets, 1)(crossed).reshape(-1, fields - 1).sum(-1, keepdims=True)
        return nn.Dense(1)(x) + wide


class FactorizationMachine(nn.Module):
    """Second-order products of embeddings beside an MLP over them (DeepFM)."""

    buckets: int
    width: int
    hidden: Sequence[int]

    @nn.compact
    def __call__(self, categories: jax.Array, train: bool) -> jax.Array:
        del train
        first = nn.Embed(self.buckets, 1)(categories).sum(axis=1)
        table = nn.Embed(self.buckets, self.width)(categories)
        second = 0.5 * (table.sum(axis=1) ** 2 - (table**2).sum(axis=1)).sum(-1, keepdims=True)
        x = table.reshape(categories.shape[0], -1)
        for width in self.hidden:
            x = nn.relu(nn.Dense(width)(x))
        return first + second + nn.Dense(1)(x)
