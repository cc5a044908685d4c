"""flax.linen with `TrainState`.

python examples/training/linen_step.py
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5


class Network(nn.Module):
    """Two dense layers."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Reconstruct `x`."""
        return nn.Dense(WIDTH)(nn.gelu(nn.Dense(HIDDEN)(x)))


def initial() -> TrainState:
    """The state before training."""
    network = Network()
    params = network.init(jax.random.key(0), jnp.zeros((1, WIDTH)))["params"]
    return TrainState.create(apply_fn=network.apply, params=params, tx=OPTIMIZER)


OPTIMIZER = optax.adamw(1e-3)


def train_step(state: TrainState, batch: jax.Array) -> tuple[TrainState, jax.Array]:
    """One step of Adam on the reconstruction of the batch."""

    def loss_of(params: Any) -> jax.Array:
        return jnp.mean((state.apply_fn({"params": params}, batch) - batch) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=gradients), loss


def main() -> None:
    """Train on one device and on all, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected = initial()
    for _ in range(STEPS):
        expected, wanted = jax.jit(train_step)(expected, batch)

    step = toast.autoshard(train_step, donate_argnums=0, memory="6MiB")
    state = initial()
    for _ in range(STEPS):
        state, loss = step(state, batch)  # the first call plans, compiles and lays the state out

    print(step.plan.partition_specs(state).params)
    print(f"loss {loss:.6f}, on one device {wanted:.6f}")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4),
        state.params,
        expected.params,
    )


if __name__ == "__main__":
    main()
