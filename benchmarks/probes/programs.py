"""Functions of JAX as the modules that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def lowered(
    function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32"
) -> bytes:
    """The StableHLO of a function of arrays of one type."""
    return lowered_of(function, *(jax.ShapeDtypeStruct(s, jnp.dtype(dtype)) for s in shapes))


def lowered_of(function: Callable[..., Any], *given: Any, donated: tuple[int, ...] = ()) -> bytes:
    """The StableHLO of a function of these, of which some may be `donated`."""
    return str(jax.jit(function, donate_argnums=donated).lower(*given).as_text()).encode()
