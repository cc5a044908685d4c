"""Steps of layered programs, and these recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.toast.microbatch.steps import drawn, run
from toast.analysis.forms import decode
from toast.recompute.policy import GroupAccount, Policy
from toast.recompute.recompute import Recomputer

Layer = Callable[[Any, Any, int], Any]
ROWS, WIDTH = 24, 8


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    """A tensor of floats that is only a shape."""
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def dense(x: Any, w: Any, number: int) -> Any:
    """A layer whose nonlinear ops are all kept for the backward pass."""
    del number
    return x + jnp.sin(jnp.tanh(x @ w) @ w.T)


def step_of(
    layers: int, *, scan: bool = False, layer: Layer = dense, remat: bool = False, rows: int = ROWS
) -> str:
    """The StableHLO of a step of gradient descent through so many layers."""
    block = jax.checkpoint(layer, static_argnums=(2,)) if remat else layer

    def loss(weights: Any, x: Any) -> Any:
        if scan:
            x, _ = jax.lax.scan(lambda x, w: (block(x, w, 0), None), x, weights["layers"])
        else:
            for number, w in enumerate(weights["layers"]):
                x = block(x, w, number)
        return jnp.mean(jnp.square(jnp.tanh(x)))

    def train(weights: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    one = shape(WIDTH, 2 * WIDTH)
    stacked = shape(layers, *one.shape) if scan else [one] * layers
    lowered = jax.jit(train).lower({"layers": stacked}, shape(rows, WIDTH))
    return str(lowered.as_text(debug_info=True))


def recomputed(module: str | bytes, policy: Policy) -> tuple[str, list[GroupAccount]]:
    """A module with all its groups under one policy, and what was done."""
    data = module.encode() if isinstance(module, str) else module
    loaded = decode(data)
    found = Recomputer(loaded.module, loaded.argument_names)
    accounts = found.rewrite(dict.fromkeys(found.groups, policy))
    with loaded.module.context:
        loaded.module.operation.verify()
        return loaded.module.operation.get_asm(enable_debug_info=True), accounts


def check_same(module: str | bytes, policy: Policy, tolerance: float = 1e-6) -> list[GroupAccount]:
    """Run a module and the recomputed one on the same arguments; they make the same numbers."""
    written, accounts = recomputed(module, policy)
    inputs = drawn(module)
    for one, other in zip(run(module, inputs), run(written, inputs), strict=True):
        left, right = one.astype(np.float64), other.astype(np.float64)
        scale = np.abs(left).max(initial=1e-30)
        np.testing.assert_allclose(left / scale, right / scale, atol=tolerance, rtol=0)
    return accounts
