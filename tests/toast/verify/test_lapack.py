"""Programs that factor matrices run in a process that lowered none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.programs import lowered
from benchmarks.proof.cases import write_plan
from toast.verify.verification import verify

SIDE = 32


def factored(a: jax.Array) -> jax.Array:
    """A Cholesky factor."""
    return jnp.linalg.cholesky(a @ a.T + SIDE * jnp.eye(SIDE))


def solved(a: jax.Array) -> jax.Array:
    """A triangular system."""
    return jax.scipy.linalg.solve_triangular(jnp.tril(a) + SIDE * jnp.eye(SIDE), a, lower=True)


@pytest.mark.parametrize("step", [factored, solved])
def test_what_lapack_computes_is_equal(step: Callable[..., jax.Array], tmp_path: Path) -> None:
    data = lowered(step, (SIDE, SIDE))
    assert b"lapack" in data
    write_plan(data, tmp_path, "a=2,b=4", memory=None)
    assert verify(tmp_path).verdict == "equal"
