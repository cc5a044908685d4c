"""Modules of `flax.nnx`: made with `rngs`, called with the inputs by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx

from benchmarks.zoo.families.rows import Inputs, Made
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree


def make(kind: Any, settings: Mapping[str, Any], inputs: Inputs, variant: Variant) -> Made:
    """The parameters of a module as shapes, apart from its other state, and its call."""
    del inputs, variant
    model = nnx.eval_shape(lambda: kind(**settings, rngs=nnx.Rngs(0)))
    graph, params, rngs, rest = nnx.split(model, nnx.Param, nnx.RngState, ...)
    variables = {"params": params, "rngs": rngs, "rest": rest}

    def apply(variables: Tree, inputs: Tree, dropout: jax.Array | None) -> tuple[Tree, Tree]:
        parts = (variables[name] for name in ("params", "rngs", "rest"))
        called = nnx.merge(graph, *parts, copy=True)
        called.set_attributes(
            deterministic=dropout is None,
            use_running_average=dropout is None,
            raise_if_not_found=False,
        )
        outputs = called(**inputs)
        _, _, rngs, rest = nnx.split(called, nnx.Param, nnx.RngState, ...)
        return outputs, {"rngs": rngs, "rest": rest}

    return Made(variables=variables, apply=apply)
