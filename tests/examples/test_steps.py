"""The models compute what they say: real steps of the tiny sizes on the CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import block_sparse
from examples.models import MODELS, Model, gat, itx, unet
from examples.models.common import Tree
from tests.examples.real_arrays import random_arguments, run, stack_like
from tests.examples.variants import SCANNED


@pytest.mark.parametrize("variant", [("unet", "tiny"), ("gat", "tiny"), ("itx", "tiny_prefill")])
def test_a_real_step_has_finite_results(variant: tuple[str, str]) -> None:
    name, preset = variant
    step = MODELS[name].make_step(MODELS[name].config(preset))
    results = run(step, random_arguments(step.arguments))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(results))


@pytest.mark.parametrize("name", SCANNED)
def test_scanned_and_unrolled_compute_the_same(name: str) -> None:
    model = MODELS[name]
    unrolled, scanned = (model.make_step(model.config("tiny", scan=scan)) for scan in (False, True))
    arguments = random_arguments(unrolled.arguments)
    stacked = stack_like(scanned.arguments, random_arguments(unrolled.arguments))
    state, loss = run(unrolled, arguments)
    scanned_state, scanned_loss = run(scanned, stacked)
    assert np.isfinite(loss).all()
    assert np.allclose(scanned_loss, loss, rtol=1e-4, atol=1e-5)
    expected = stack_like(scanned_state, state)
    for left, right in zip(jax.tree.leaves(scanned_state), jax.tree.leaves(expected), strict=True):
        # Adam divides by the root of squares: rounding shows where a gradient is next to nothing.
        assert np.allclose(left, right, rtol=1e-3, atol=3e-3)


def test_decoding_token_by_token_agrees_with_a_prefill() -> None:
    model: Model = MODELS["itx"]
    decode, prefill = (model.make_step(model.config(p)) for p in ("tiny", "tiny_prefill"))
    params, cache, tokens = random_arguments(prefill.arguments)
    empty: Tree = jax.tree.map(jnp.zeros_like, cache)
    copy = jax.tree.map(jnp.copy, empty)
    filled, expected = prefill.function(params, empty, tokens)
    logits = jnp.zeros(())
    for position in range(tokens.shape[1]):
        copy, logits = decode.function(params, copy, tokens[:, position], jnp.int32(position))
    assert np.allclose(logits, expected, rtol=1e-4, atol=1e-4)
    for left, right in zip(jax.tree.leaves(copy), jax.tree.leaves(filled), strict=True):
        assert np.allclose(left, right, rtol=1e-4, atol=1e-5)


def test_a_rotation_depends_on_distance_alone() -> None:
    vector = jnp.asarray(np.random.default_rng(0).normal(size=16), jnp.float32)
    repeated = jnp.broadcast_to(vector, (1, 4, 16))
    early = itx.rotary(repeated, jnp.arange(4))[0]
    late = itx.rotary(repeated, jnp.arange(4) + 100)[0]
    assert np.allclose(early @ early.T, late @ late.T, rtol=1e-3, atol=1e-3)
    assert not np.allclose(early, late, atol=1e-2)


def test_a_node_attends_to_its_neighbours_alone() -> None:
    weights, batch = (
        random_arguments(shapes)
        for shapes in (
            gat.param_shapes(gat.PRESETS["tiny"]),
            gat.make_step(gat.PRESETS["tiny"]).arguments[1],
        )
    )
    adjacency = jnp.eye(64, dtype=jnp.bool_).at[0, 5].set(True)
    features = batch["features"]
    before = gat.graph_attention(weights, features, adjacency)
    after = gat.graph_attention(weights, features.at[5].add(1.0), adjacency)
    changed = np.flatnonzero(np.abs(np.asarray(after - before)).max(axis=1) > 1e-6)
    assert changed.tolist() == [0, 5]


def test_enlarging_repeats_each_pixel() -> None:
    x = jnp.arange(8.0).reshape(1, 2, 2, 2)
    large = unet.enlarge(x)
    assert large.shape == (1, 4, 4, 2)
    assert np.array_equal(large, np.asarray(x).repeat(2, axis=1).repeat(2, axis=2))


def test_group_norm_normalises_each_group_of_channels() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(3.0, 2.0, (2, 4, 4, 8)), jnp.float32)
    weights = {"scale": jnp.ones(8), "bias": jnp.zeros(8)}
    groups = unet.group_norm(2, weights, x).reshape(2, 16, 2, 4)
    assert np.allclose(groups.mean(axis=(1, 3)), 0.0, atol=1e-5)
    assert np.allclose(groups.std(axis=(1, 3)), 1.0, atol=1e-3)


def test_block_sparse_attention_is_attention_under_its_mask() -> None:
    config = block_sparse.PRESETS["tiny"]
    positions = config.blocks * config.block
    rng = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(rng.normal(size=(2, 3, positions, 8)), jnp.float32) for _ in range(3)
    )
    later, block = np.arange(positions)[:, None], config.block
    seen = np.array([[k in config.seen(q) for k in range(config.blocks)] for q in range(4)])
    mask = (later >= later.T) & np.kron(seen, np.ones((block, block), dtype=bool))
    scores = np.where(mask, np.einsum("bnsh,bnth->bnst", query, key) * 8**-0.5, -np.inf)
    share = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = np.einsum("bnst,bnth->bnsh", share / share.sum(axis=-1, keepdims=True), value)
    found = block_sparse.attention(config, query, key, value)
    assert not mask[-1].all()
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
