"""What a model of any library is here, and the programs that are made of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.zoo.optimizers import optimizer_of
from benchmarks.zoo.variant import Variant
from examples.forms import Step
from examples.libraries.common import Tree, cross_entropy, key, of, tokens

Apply = Callable[[Tree, Tree, "jax.Array | None"], tuple[Tree, Tree]]
"""(variables, inputs, dropout key) -> (outputs, variables that changed); no key: not training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """A call that reads and extends a cache: (variables, cache, inputs) -> (outputs, cache)."""

    cache: Tree
    inputs: Tree
    apply: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Shapes of a model's variables and of a batch, and how it is called.

    `variables` has the collection `params` and maybe others, which are not trained. Labels have the
    shapes that `labels(outputs)` says, and `loss(outputs, labels)` is a scalar.
    """

    variables: Tree
    inputs: Tree
    apply: Apply
    loss: Callable[[Tree, Tree], jax.Array]
    labels: Callable[[Tree], Tree]
    prefill: Callable[[], Cached] | None = None
    decode: Callable[[], Cached] | None = None


def class_loss(outputs: Tree, labels: Tree) -> jax.Array:
    """The sum of the cross entropies of all outputs."""
    pairs = zip(jax.tree.leaves(outputs), jax.tree.leaves(labels), strict=True)
    return sum((cross_entropy(logits, label) for logits, label in pairs), jnp.float32(0))


def class_labels(outputs: Tree) -> Tree:
    """A class for each row of logits."""
    return jax.tree.map(lambda logits: tokens(*logits.shape[:-1]), outputs)


def value_loss(outputs: Tree, values: Tree) -> jax.Array:
    """The sum of the mean squared errors of all outputs."""
    pairs = zip(jax.tree.leaves(outputs), jax.tree.leaves(values), strict=True)
    return sum((jnp.mean(jnp.square(out - value)) for out, value in pairs), jnp.float32(0))


def value_labels(outputs: Tree) -> Tree:
    """A value for each output."""
    return jax.tree.map(lambda out: of(*out.shape), outputs)


def step_of(model: Model, variant: Variant) -> Step:
    """The program of a variant; ValueError for one that the model has not."""
    makers = {"train": _train, "infer": _infer, "prefill": _cached, "decode": _cached}
    return makers[variant.kind](model, variant)


def _train(model: Model, variant: Variant) -> Step:
    """(state, batch, key) -> (state, loss), with the state donated, as users of optax write it."""
    import optax

    optimizer = optimizer_of(variant.optimizer)
    rest = {name: tree for name, tree in model.variables.items() if name != "params"}
    params = model.variables["params"]

    def loss(params: Tree, rest: Tree, batch: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        used, inputs = {"params": params, **rest}, batch["inputs"]
        if variant.bf16:
            used, inputs = {**used, "params": _narrow(params)}, _narrow(inputs)
        outputs, changed = model.apply(used, inputs, key)
        wide = jax.tree.map(lambda out: out.astype(jnp.float32), outputs)
        return model.loss(wide, batch["labels"]), {**rest, **changed}

    def train_step(state: Tree, batch: Tree, dropout_key: jax.Array) -> tuple[Tree, jax.Array]:
        (value, rest), grads = jax.value_and_grad(loss, has_aux=True)(
            state["params"], state["rest"], batch, dropout_key
        )
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "rest": rest, "opt_state": opt_state}, value

    opt_state = jax.eval_shape(optimizer.init, params)
    state = {"params": params, "rest": rest, "opt_state": opt_state}
    outputs, _ = jax.eval_shape(model.apply, model.variables, model.inputs, key())
    batch = {"inputs": model.inputs, "labels": model.labels(outputs)}
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(state, batch, key()))


def _infer(model: Model, variant: Variant) -> Step:
    """(variables, inputs) -> outputs, or of many logits the best."""

    def infer(variables: Tree, inputs: Tree) -> Tree:
        outputs, _ = model.apply(variables, inputs, None)
        return jax.tree.map(_best, outputs)

    narrow = _narrow_shapes if variant.bf16 else _same
    return Step(function=jax.jit(infer), arguments=(narrow(model.variables), narrow(model.inputs)))


def _cached(model: Model, variant: Variant) -> Step:
    """(variables, cache, inputs) -> (next tokens, cache), with the cache donated."""
    make = model.prefill if variant.kind == "prefill" else model.decode
    if make is None:
        raise ValueError(f"the model has no {variant.kind}")
    cached = make()

    def step(variables: Tree, cache: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        outputs, cache = cached.apply(variables, cache, inputs)
        return jax.tree.map(lambda out: jnp.argmax(out[:, -1], axis=-1), outputs), cache

    narrow = _narrow_shapes if variant.bf16 else _same
    return Step(
        function=jax.jit(step, donate_argnums=(1,)),
        arguments=(narrow(model.variables), narrow(cached.cache), narrow(cached.inputs)),
    )


def _best(out: jax.Array) -> jax.Array:
    return jnp.argmax(out, axis=-1) if out.ndim > 2 and out.shape[-1] > 1000 else out


def _narrow(tree: Tree) -> Tree:
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.bfloat16) if leaf.dtype == jnp.float32 else leaf, tree
    )


def _narrow_shapes(tree: Tree) -> Tree:
    def narrow(leaf: Any) -> jax.ShapeDtypeStruct:
        wide = leaf.dtype == jnp.float32
        return jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16 if wide else leaf.dtype)

    return jax.tree.map(narrow, tree)


def _same(tree: Tree) -> Tree:
    return tree
