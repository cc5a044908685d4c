"""Plain JAX: the state is a NamedTuple with a typed key and a counter.

python examples/training/jax_step.py
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5


class State(NamedTuple):
    """What the loop carries."""

    params: dict[str, jax.Array]
    key: jax.Array
    step: int | jax.Array


def initial() -> State:
    """The state before training."""
    first, second = jax.random.split(jax.random.key(0))
    params = {
        "up": jax.random.normal(first, (WIDTH, HIDDEN)) / WIDTH**0.5,
        "down": jax.random.normal(second, (HIDDEN, WIDTH)) / HIDDEN**0.5,
    }
    return State(params, jax.random.key(1), 0)


def train_step(state: State, batch: jax.Array) -> tuple[State, dict[str, Any]]:
    """One step of gradient descent on the reconstruction of a noisy batch."""
    key, noise = jax.random.split(state.key)

    def loss_of(params: dict[str, jax.Array]) -> jax.Array:
        noisy = batch + 0.1 * jax.random.normal(noise, batch.shape)
        return jnp.mean((jax.nn.gelu(noisy @ params["up"]) @ params["down"] - batch) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    params = jax.tree.map(lambda p, g: p - 0.3 * g, state.params, gradients)
    return State(params, key, state.step + 1), {"loss": loss}


def main() -> None:
    """Train on one device and on all, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected = initial()
    for _ in range(STEPS):
        expected, wanted = jax.jit(train_step)(expected, batch)

    step = toast.autoshard(train_step, donate_argnums=0, memory="4MiB")
    step.prepare(initial(), batch)
    state = step.shard(initial())
    for _ in range(STEPS):
        state, metrics = step(state, batch)

    print(step.plan.partition_specs(state))
    print(f"loss {metrics['loss']:.6f}, on one device {wanted['loss']:.6f}")
    for name, value in state.params.items():
        np.testing.assert_allclose(value, expected.params[name], rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    main()
