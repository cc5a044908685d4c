"""A training step of a two-layer perceptron with SGD, the smallest step worth sharding.

python examples/mlp.py --preset small --form text -o mlp.mlir
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

if __name__ == "__main__":  # run as a file: find the sibling module
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.forms import Step, run_cli

Params = dict[str, jax.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the perceptron; `outputs` is the size of the regression target."""

    batch: int
    inputs: int
    hidden: int
    outputs: int
    learning_rate: float = 0.01


PRESETS = {
    "tiny": Config(batch=16, inputs=32, hidden=64, outputs=32),
    "small": Config(batch=1024, inputs=1024, hidden=4096, outputs=1024),
}


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error; x: [batch, inputs], y: [batch, outputs]."""
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jnp.mean(jnp.square(hidden @ params["w2"] + params["b2"] - y))


def make_step(config: Config) -> Step:
    """The jitted step with its parameters donated, and its arguments."""

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def sgd_step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        update = jax.tree.map(lambda p, g: p - config.learning_rate * g, params, grads)
        return update, value

    params = {
        "w1": of(config.inputs, config.hidden),
        "b1": of(config.hidden),
        "w2": of(config.hidden, config.outputs),
        "b2": of(config.outputs),
    }
    data = of(config.batch, config.inputs), of(config.batch, config.outputs)
    return Step(function=jax.jit(sgd_step, donate_argnums=(0,)), arguments=(params, *data))


def lower(config: Config) -> jax.stages.Lowered:
    """The StableHLO of the step; no array is allocated."""
    return make_step(config).lower()


if __name__ == "__main__":
    steps = {name: partial(make_step, config) for name, config in PRESETS.items()}
    sys.exit(run_cli("Lower a two-layer perceptron's training step.", steps, "small"))
