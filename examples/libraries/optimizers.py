"""One MLP under the optimizers that optax's users reach for; [batch, width] through `depth`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.libraries.common import Builder, Tree, of, training


def _adamw() -> Any:
    import optax

    return optax.adamw(1e-3, weight_decay=1e-2)


def _clipped() -> Any:
    import optax

    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def _adafactor() -> Any:
    import optax

    return optax.adafactor(1e-3)


def _lion() -> Any:
    import optax

    return optax.lion(1e-4)


def _accumulated() -> Any:
    import optax

    return optax.MultiSteps(optax.adamw(1e-3), every_k_schedule=4)


def step(optimizer: Callable[[], Any], batch: int, width: int, depth: int) -> Step:
    """The training step of the MLP with one optimizer."""

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        del dropout_key
        x = batch["x"]
        for layer in params:
            x = x + jax.nn.relu(x @ layer["up"] + layer["bias"]) @ layer["down"]
        return jnp.mean(jnp.square(x - batch["y"]))

    layer = {
        "up": of(width, 4 * width),
        "bias": of(4 * width),
        "down": of(4 * width, width),
    }
    data = {"x": of(batch, width), "y": of(batch, width)}
    return training(loss, [dict(layer) for _ in range(depth)], data, optimizer())


OPTIMIZERS = {
    "adamw": _adamw,
    "clipped_adamw": _clipped,
    "adafactor": _adafactor,
    "lion": _lion,
    "multisteps": _accumulated,
}
BUILDERS = tuple(
    Builder(
        name=f"optax_{name}",
        summary=f"an MLP with {name}",
        needs=("optax",),
        presets={
            "tiny": partial(step, make, 16, 128, 2),
            "default": partial(step, make, 4096, 2048, 4),
        },
    )
    for name, make in OPTIMIZERS.items()
)
