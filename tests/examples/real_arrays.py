"""Real arrays for a step that is described by shapes alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples.forms import Step

SMALLEST_TABLE = 8
"""Integers are drawn below this: every table that they index is at least as long."""


def random_arguments(shapes: Any, seed: int = 0) -> Any:
    """Small random numbers for each shape; zeros for counters and an optimizer's moments."""
    random = np.random.default_rng(seed)

    def draw(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name = jax.tree_util.keystr(path)
        if leaf.shape == () or any(part in name for part in ("'mu'", "'nu'", "'momentum'")):
            return jnp.zeros(leaf.shape, leaf.dtype)
        if leaf.dtype == jnp.bool_:
            return jnp.asarray(random.random(leaf.shape) < 0.5)
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.asarray(random.integers(0, SMALLEST_TABLE, leaf.shape), leaf.dtype)
        return jnp.asarray(random.normal(0, 0.1, leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def stack_like(shapes: Any, arrays: Any) -> Any:
    """The arrays of an unrolled model, with its lists of layers stacked where `shapes` has none."""
    if isinstance(arrays, list) and not isinstance(shapes, list):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    if isinstance(shapes, dict):
        return {key: stack_like(shapes[key], arrays[key]) for key in shapes}
    if isinstance(shapes, tuple | list):
        return type(shapes)(stack_like(*pair) for pair in zip(shapes, arrays, strict=True))
    return arrays


def run(step: Step, arguments: Any) -> Any:
    """The results of a step, compiled fast rather than well."""
    compiled = step.lower().compile(compiler_options={"xla_backend_optimization_level": 0})
    return compiled(*arguments)
