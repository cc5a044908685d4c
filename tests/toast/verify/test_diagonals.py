"""A contrastive loss, whose rows and columns are one batch, is planned and computes the same."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.programs import lowered
from benchmarks.proof.cases import write_plan
from toast.verify.verification import verify

PAIRS, WIDTH = 2048, 128
"""Of fewer pairs the plan shards nothing."""


def loss(one: jax.Array, other: jax.Array) -> jax.Array:
    """Of pairs that belong together, against all other pairs."""
    scores, pairs = one @ other.T, jnp.arange(PAIRS)
    rows, columns = jax.nn.log_softmax(scores), jax.nn.log_softmax(scores.T)
    return -jnp.mean(rows[pairs, pairs]) - jnp.mean(columns[pairs, pairs])


@pytest.mark.parametrize("mesh", ["a=8", "a=2,b=4"])
def test_a_contrastive_loss_is_equal(mesh: str, tmp_path: Path) -> None:
    step = jax.grad(loss, argnums=(0, 1))
    data = lowered(step, (PAIRS, WIDTH), (PAIRS, WIDTH))
    result = write_plan(data, tmp_path, mesh, memory=None)
    assert any(axes for one in result.plan.arguments for axes in one.spec)
    assert verify(tmp_path).verdict == "equal"
