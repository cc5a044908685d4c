"""Modules of `equinox`: made with `key`, called with one example, and with a key to train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax

from benchmarks.zoo.families.rows import Inputs, Made
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree, key


def make(kind: Any, settings: Mapping[str, Any], inputs: Inputs, variant: Variant) -> Made:
    """The parameters of a module as shapes, and its call under `jax.vmap` over the batch."""
    del variant
    model = eqx.filter_eval_shape(lambda key: kind(**settings, key=key), key())
    params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    rows = next(iter(inputs.values())).shape[0]

    def apply(variables: Tree, inputs: Tree, dropout: jax.Array | None) -> tuple[Tree, Tree]:
        called = eqx.combine(variables["params"], static)
        if dropout is None:
            called = eqx.nn.inference_mode(called)
            return jax.vmap(lambda one: called(**one, key=None))(inputs), {}
        keys = jax.random.split(dropout, rows)
        return jax.vmap(lambda one, key: called(**one, key=key))(inputs, keys), {}

    return Made(variables={"params": params}, apply=apply)
