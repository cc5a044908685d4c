"""What the builders share: training steps with optax, and shapes in place of arrays.

Nothing here allocates a parameter: models are made under `jax.eval_shape`, and steps are lowered
for `jax.ShapeDtypeStruct`s.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step

Tree = Any
Loss = Callable[[Tree, Tree, jax.Array], jax.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """A step of a library's model.

    `needs` are the packages that it imports; `presets` its sizes by name, each building a `Step`.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    presets: Mapping[str, Callable[[], Step]]

    def missing(self) -> list[str]:
        """The packages that are not installed here."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def of(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """A tensor that is only a shape."""
    return jax.ShapeDtypeStruct(shape, dtype)


def tokens(*shape: int) -> jax.ShapeDtypeStruct:
    """Token ids, or any other i32."""
    return of(*shape, dtype=jnp.int32)


def key() -> jax.ShapeDtypeStruct:
    """A raw random key, as `jax.random.PRNGKey` makes them."""
    return of(2, dtype=jnp.uint32)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy; logits: [..., classes], labels: [...]."""
    import optax

    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def adamw(learning_rate: float = 3e-4) -> Any:
    """AdamW with weight decay on matrices alone, a warm-up, and the gradients' norm clipped."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, 100, 10_000)

    def is_matrix(params: Tree) -> Tree:
        return jax.tree.map(lambda leaf: leaf.ndim > 1, params)

    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.95, weight_decay=0.1, mask=is_matrix),
    )


def training(loss: Loss, params: Tree, batch: Tree, optimizer: Any) -> Step:
    """A step (state, batch, dropout_key) -> (state, loss), with the state donated.

    The state is `{"params": ..., "opt_state": ...}`; `loss(params, batch, dropout_key)` is a
    scalar.
    """
    import optax

    def train_step(state: Tree, batch: Tree, dropout_key: jax.Array) -> tuple[Tree, jax.Array]:
        value, grads = jax.value_and_grad(loss)(state["params"], batch, dropout_key)
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt_state": opt_state}, value

    state = {"params": params, "opt_state": jax.eval_shape(optimizer.init, params)}
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(state, batch, key()))
