"""A program that fits a v5e only if something is computed again."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp


@cache
def sorted_twice() -> bytes:
    """What is sorted at the beginning and at the end, and too large to be kept between."""

    def run(x: Any) -> Any:
        t = jnp.tanh(x)
        made = jnp.sort(t, axis=0)
        for _ in range(3):
            made = made @ made
        total = jnp.sum(made, axis=0)
        return jnp.sum(jnp.sort(t, axis=1) * total)

    shape = jax.ShapeDtypeStruct((36864, 36864), jnp.float32)
    return jax.jit(run).lower(shape).as_text().encode()
