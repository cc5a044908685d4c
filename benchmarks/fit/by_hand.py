"""What people write by hand against too little memory: `jax.checkpoint`, and gradients in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from examples import gemma
from examples.forms import Step
from examples.models.common import ADAM, Tree

Policy = Literal["none", "products", "all"]
POLICIES: tuple[Policy, ...] = ("none", "products", "all")
"""No `jax.checkpoint`; one with `dots_saveable`; one that saves nothing."""


def checkpointed(
    block: Callable[..., Any], policy: Policy, static: tuple[int, ...]
) -> Callable[..., Any]:
    """A block of a model under a policy."""
    if policy == "none":
        return block
    saved = jax.checkpoint_policies.dots_saveable if policy == "products" else None
    wrapped: Callable[..., Any] = jax.checkpoint(block, policy=saved, static_argnums=static)
    return wrapped


def in_parts(step: Step, loss: Callable[[Tree, Tree], jax.Array], parts: int) -> Step:
    """A step with Adam whose gradients are those of the parts of the batch, added up in a scan.

    Part t has every `parts`-th example, so that a batch which devices share stays where it is.
    """

    def split(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(-1, parts, *leaf.shape[1:]).swapaxes(0, 1)

    def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        def one(sums: Any, part: Tree) -> tuple[Any, None]:
            found = jax.value_and_grad(loss)(state["params"], part)
            return jax.tree.map(jnp.add, sums, found), None

        zeros = jax.tree.map(jnp.zeros_like, state["params"])
        sums, _ = jax.lax.scan(one, (jnp.zeros(()), zeros), jax.tree.map(split, batch))
        value, grads = jax.tree.map(lambda leaf: leaf / parts, sums)
        return gemma.adam(ADAM, state, grads), value

    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=step.arguments)
