"""A program that explodes in its own floats is no reason to call a plan wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.proof.cases import write_plan
from examples.forms import Step, serialize
from toast.verify.verification import verify

STEPS, NODES, EDGES, WIDTH = 16, 16, 512, 64


def loss(params: list[Any], nodes: Any, edges: Any, senders: Any, receivers: Any) -> jax.Array:
    """Sums over edges and residuals, as in a graph network without norms."""
    for edge, node in params:
        ends = jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1)
        edges = edges + jax.nn.relu(ends @ edge) * 4
        received = jax.ops.segment_sum(edges, receivers, nodes.shape[0])
        nodes = nodes + jax.nn.relu(jnp.concatenate([nodes, received], axis=-1) @ node) * 4
    return jnp.mean(jnp.square(nodes))


def train(params: list[Any], *batch: Any) -> tuple[list[Any], jax.Array]:
    value, grads = jax.value_and_grad(loss)(params, *batch)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), value


def graph_network() -> bytes:
    def floats(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    places = jax.ShapeDtypeStruct((EDGES,), jnp.int32)
    params = [(floats(3 * WIDTH, WIDTH), floats(2 * WIDTH, WIDTH)) for _ in range(STEPS)]
    batch = floats(NODES, WIDTH), floats(EDGES, WIDTH), places, places
    return serialize(Step(function=jax.jit(train), arguments=(params, *batch)), "bytecode")


@pytest.mark.nightly
def test_a_graph_network_of_many_steps_is_equal(tmp_path: Path) -> None:
    result = write_plan(graph_network(), tmp_path, "data=2,model=4", memory=3 << 20)
    assert any(axes for one in result.plan.arguments for axes in one.spec)
    found = verify(tmp_path)
    assert found.collectives
    assert found.verdict == "equal"
    assert all(one.verdict == "equal" for one in found.differences)
