"""Dict parameters with `optax.adamw`.

python examples/training/optax_step.py
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5
OPTIMIZER = optax.adamw(1e-3)


def initial() -> dict[str, Any]:
    """Parameters and the optimizer's state."""
    keys = jax.random.split(jax.random.key(0), 2)
    params = {
        "up": {
            "w": jax.random.normal(keys[0], (WIDTH, HIDDEN)) / WIDTH**0.5,
            "b": jnp.zeros(HIDDEN),
        },
        "down": {"w": jax.random.normal(keys[1], (HIDDEN, WIDTH)) / HIDDEN**0.5},
    }
    return {"params": params, "opt_state": OPTIMIZER.init(params)}


def train_step(state: dict[str, Any], batch: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    """One step of Adam on the reconstruction of the batch."""

    def loss_of(params: dict[str, Any]) -> jax.Array:
        hidden = jax.nn.gelu(batch @ params["up"]["w"] + params["up"]["b"])
        return jnp.mean((hidden @ params["down"]["w"] - batch) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(state["params"])
    updates, opt_state = OPTIMIZER.update(gradients, state["opt_state"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt_state}, loss


def main() -> None:
    """Train on one device and on a mesh with named axes, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected = initial()
    for _ in range(STEPS):
        expected, wanted = jax.jit(train_step)(expected, batch)

    mesh = jax.make_mesh((2, len(jax.devices()) // 2), ("data", "model"))
    step = toast.autoshard(
        jax.jit(train_step, donate_argnums=0),
        mesh=mesh,
        pins=["state/params/up/w=None,model"],  # and the moments of Adam go with it
        memory="5MiB",
    )
    step.prepare(initial(), batch)
    # The initial state is made where it will be: no device ever holds all of it.
    state = jax.jit(initial, out_shardings=step.in_shardings[0])()
    for _ in range(STEPS):
        state, loss = step(state, batch)

    print(step.plan.partition_specs(state)["params"])
    print(f"loss {loss:.6f}, on one device {wanted:.6f}")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4),
        state["params"],
        expected["params"],
    )


if __name__ == "__main__":
    main()
