"""flax.nnx: a module and an optimizer that the step changes.

python examples/training/nnx_step.py
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import toast

WIDTH, HIDDEN, BATCH, STEPS = 256, 1024, 128, 5


class Network(nnx.Module):
    """Two linear layers with dropout between."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(WIDTH, HIDDEN, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.down = nnx.Linear(HIDDEN, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Reconstruct `x`."""
        return self.down(self.dropout(nnx.gelu(self.up(x))))


def initial() -> tuple[Network, nnx.Optimizer]:
    """A network and its optimizer before training."""
    model = Network(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


def train_step(model: Network, optimizer: nnx.Optimizer, batch: jax.Array) -> jax.Array:
    """One step of Adam, which changes the model and the optimizer."""

    def loss_of(model: Network) -> jax.Array:
        return jnp.mean((model(batch) - batch) ** 2)

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


def main() -> None:
    """Train on one device and on all, and compare."""
    batch = np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")
    expected, optimizer = initial()
    reference = nnx.jit(train_step)
    for _ in range(STEPS):
        wanted = reference(expected, optimizer, batch)

    step = toast.autoshard(reference, memory="6MiB")  # or of train_step itself
    model, optimizer = initial()
    for _ in range(STEPS):
        loss = step(model, optimizer, batch)

    print(step.plan.partition_specs(nnx.state(model, nnx.Param)))
    print(f"loss {loss:.6f}, on one device {wanted:.6f}")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4),
        nnx.state(model, nnx.Param),
        nnx.state(expected, nnx.Param),
    )


if __name__ == "__main__":
    main()
