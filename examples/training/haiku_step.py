"""Haiku's parameters, which have the names of modules.

python examples/training/haiku_step.py
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5
OPTIMIZER = optax.adamw(1e-3)


def reconstruct(x: jax.Array) -> jax.Array:
    """Two linear layers."""
    network: Any = hk.nets.MLP([HIDDEN, WIDTH])
    return network(x)


NETWORK = hk.without_apply_rng(hk.transform(reconstruct))


def initial() -> tuple[Any, Any]:
    """Parameters and the optimizer's state."""
    params = NETWORK.init(jax.random.key(0), jnp.zeros((1, WIDTH)))
    return params, OPTIMIZER.init(params)


def train_step(params: Any, opt_state: Any, batch: jax.Array) -> tuple[Any, Any, jax.Array]:
    """One step of Adam on the reconstruction of the batch."""

    def loss_of(params: Any) -> jax.Array:
        return jnp.mean((NETWORK.apply(params, batch) - batch) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, opt_state = OPTIMIZER.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main() -> None:
    """Train on one device and on all, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected, opt_state = initial()
    for _ in range(STEPS):
        expected, opt_state, wanted = jax.jit(train_step)(expected, opt_state, batch)

    step = toast.autoshard(train_step, donate_argnums=(0, 1), memory="6MiB")
    params, opt_state = initial()
    for _ in range(STEPS):
        params, opt_state, loss = step(params, opt_state, batch)

    print(step.plan.partition_specs(params, argument="params"))
    print(f"loss {loss:.6f}, on one device {wanted:.6f}")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4), params, expected
    )


if __name__ == "__main__":
    main()
