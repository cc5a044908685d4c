"""What a program stores for the gradient of a max pooling."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import launched
from benchmarks.probes.nets import conv
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

IMAGE, FILTER = (8, 128, 128, 128), (3, 3, 128, 128)


def pooled(padding: Literal["SAME", "VALID"]) -> bytes:
    """The gradient of a convolution of what is pooled of another."""

    def loss(x: Any, first: Any, second: Any) -> Any:
        made = jnp.tanh(conv(x, first))
        pooling = jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding
        return jnp.mean(jnp.square(conv(jax.lax.reduce_window(made, -jnp.inf, *pooling), second)))

    return lowered(jax.grad(loss, argnums=(1, 2)), IMAGE, FILTER, FILTER)


def stored(compiled: Compiled) -> list[str]:
    """By launch the types of what it stores that has a batch of images."""
    found = []
    for one, opcodes in launched(compiled):
        images = [shape for shape in one.shapes if len(shape.dims) >= 4 and IMAGE[0] in shape.dims]
        told = [name for name in ("pad", "reduce-window", "select-and-scatter") if name in opcodes]
        types = " ".join(f"{shape.dtype}{list(shape.dims)}" for shape in images)
        if images:
            found.append(f"{' '.join(told) or one.opcode} -> {types}")
    return found


PROBE = Probe(
    name="select_and_scatter_expander",
    figures="by launch what images it stores",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases={
        "padded": Case.of(partial(pooled, "SAME"), stored),
        "not padded": Case.of(partial(pooled, "VALID"), stored),
    },
)
