"""Modules of `flax.linen`: called with `train`, and the inputs by their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.zoo.families.rows import Inputs, Made
from benchmarks.zoo.model import Cached
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree, key, tokens


def make(kind: Any, settings: Mapping[str, Any], inputs: Inputs, variant: Variant) -> Made:
    """The variables of a module, and its call."""
    module = kind(**settings)
    variables = jax.eval_shape(partial(_init, module), key(), inputs)
    changing = [name for name in variables if name != "params"]

    def apply(variables: Tree, inputs: Tree, dropout: jax.Array | None) -> tuple[Tree, Tree]:
        if dropout is None:
            return module.apply(variables, **inputs, train=False), {}
        rngs = {"dropout": dropout, "noise": jax.random.fold_in(dropout, 1)}
        out = module.apply(variables, **inputs, train=True, rngs=rngs, mutable=changing)
        return out if changing else (out[0], {})

    decode = _decode(kind(**settings, decode=True), inputs) if variant.kind == "decode" else None
    return Made(variables=variables, apply=apply, decode=decode)


def _init(module: Any, dropout: jax.Array, inputs: Tree) -> Tree:
    rngs = {"params": dropout, "dropout": dropout, "noise": dropout}
    return module.init(rngs, **inputs, train=False)


def _decode(module: Any, inputs: Inputs) -> Cached:
    """One token, with the cache that flax keeps as a collection; `ids` say how long it is."""
    cache = jax.eval_shape(partial(_init, module), key(), inputs)["cache"]

    def apply(variables: Tree, cache: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        out, changed = module.apply(
            {**variables, "cache": cache}, **inputs, train=False, mutable=["cache"]
        )
        return out, changed["cache"]

    one = {name: tokens(value.shape[0], 1) for name, value in inputs.items()}
    return Cached(cache=cache, inputs=one, apply=apply)


def norm(train: bool, name: str | None = None) -> Any:
    """Batch normalisation with running statistics."""
    from flax import linen as nn

    return nn.BatchNorm(use_running_average=not train, momentum=0.9, name=name)


def shifted(ids: jax.Array) -> jax.Array:
    """Tokens moved one place to the right, as a decoder sees what it is to say."""
    return jnp.pad(ids[:, :-1], ((0, 0), (1, 0)))
