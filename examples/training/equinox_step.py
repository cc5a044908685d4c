"""An equinox module with `filter_jit`.

python examples/training/equinox_step.py
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5
OPTIMIZER = optax.adamw(1e-3)


def initial() -> tuple[eqx.Module, Any]:
    """A network and the optimizer's state."""
    model = eqx.nn.MLP(WIDTH, WIDTH, HIDDEN, 1, activation=jax.nn.gelu, key=jax.random.key(0))
    return model, OPTIMIZER.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def train_step(model: Any, opt_state: Any, batch: jax.Array) -> tuple[Any, Any, jax.Array]:
    """One step of Adam on the reconstruction of the batch."""

    def loss_of(model: Any) -> jax.Array:
        return jnp.mean((jax.vmap(model)(batch) - batch) ** 2)

    loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
    updates, opt_state = OPTIMIZER.update(gradients, opt_state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), opt_state, loss


def main() -> None:
    """Train on one device and on all, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected, opt_state = initial()
    for _ in range(STEPS):
        expected, opt_state, wanted = train_step(expected, opt_state, batch)

    step = toast.autoshard(train_step, donate_argnums=(0, 1), memory="6MiB")
    model, opt_state = initial()
    for _ in range(STEPS):
        model, opt_state, loss = step(model, opt_state, batch)

    print(step.plan.partition_specs(eqx.filter(model, eqx.is_array)).layers)
    print(f"loss {loss:.6f}, on one device {wanted:.6f}")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4),
        eqx.filter(model, eqx.is_array),
        eqx.filter(expected, eqx.is_array),
    )


if __name__ == "__main__":
    main()
