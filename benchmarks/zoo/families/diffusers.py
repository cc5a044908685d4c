"""Flax models of `diffusers`: made whole by their class, called with the inputs by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.zoo.families.rows import Inputs, Made
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree, key


def make(kind: Any, settings: Mapping[str, Any], inputs: Inputs, variant: Variant) -> Made:
    """The parameters of a model as shapes, and its call."""
    del inputs
    model = kind(**settings, dtype=jnp.bfloat16 if variant.bf16 else jnp.float32)
    params = jax.eval_shape(model.init_weights, key())

    def apply(variables: Tree, inputs: Tree, dropout: jax.Array | None) -> tuple[Tree, Tree]:
        rngs = {} if dropout is None else {"rngs": {"dropout": dropout, "gaussian": dropout}}
        switch = (
            {"deterministic": dropout is None}
            if "sample" in inputs and len(inputs) == 1
            else {"train": dropout is not None}
        )
        out = model.apply(variables, **inputs, **switch, **rngs)
        return dict(out.items()), {}

    return Made(variables={"params": params}, apply=apply)
