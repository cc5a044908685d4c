"""Reductions of what a product makes: inside its fusion, or in a pass of their own."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

Shape = tuple[int, int, int]


def softmax(queries: Shape, keys: Shape, dtype: str) -> bytes:
    """Attention: a softmax between two products, in 32 bits."""

    def step(q: jax.Array, k: jax.Array) -> jax.Array:
        scores = jnp.einsum("bsh,bth->bst", q, k).astype(jnp.float32) * 0.125
        return jnp.einsum("bst,bth->bsh", jax.nn.softmax(scores).astype(q.dtype), k)

    return lowered(step, queries, keys, dtype=dtype)


def trained(scale: float) -> bytes:
    """The gradient of attention in 32 bits, whose scores are scaled unless that is by 1."""

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bsh,bth->bst", q, k)
        weights = jax.nn.softmax(scores if scale == 1.0 else scores * scale)
        return jnp.sum(jnp.sin(jnp.einsum("bst,bth->bsh", weights, v)))

    shape = (32, 1024, 64)
    return lowered(jax.grad(loss, argnums=(0, 1, 2)), shape, shape, shape)


def normed() -> bytes:
    """A layer whose features are normalised over all examples, in 32 bits."""

    def step(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        made = x @ w
        centred = made - made.mean(axis=0)
        return jnp.tanh(centred * jax.lax.rsqrt((centred**2).mean(axis=0) + 1e-5)) @ v

    return lowered(step, (65536, 512), (512, 512), (512, 512))


PROGRAMS: dict[str, tuple[Shape, Shape, str]] = {
    "rows of 512 in bf16": ((4, 256, 64), (4, 512, 64), "bfloat16"),
    "rows of 512 in f32": ((4, 256, 64), (4, 512, 64), "float32"),
    "eight rows": ((4, 8, 64), (4, 512, 64), "bfloat16"),
    "rows of 4096": ((2, 256, 8), (2, 4096, 8), "bfloat16"),
    "rows of 8192": ((2, 256, 8), (2, 8192, 8), "bfloat16"),
    "rows of 16384": ((2, 256, 8), (2, 16384, 8), "bfloat16"),
    "128 rows": ((4, 128, 64), (4, 512, 64), "bfloat16"),
    "64 rows": ((4, 64, 64), (4, 512, 64), "bfloat16"),
}
"""Of attention: queries, keys and their type."""


def fusions(compiled: Compiled) -> dict[str, int]:
    """How many fusions reduce beside a product, and alone, and how many are a whole softmax."""
    found = {"beside a product": 0, "alone": 0, "online softmax": 0}
    for fusion, opcodes in launched(compiled):
        found["online softmax"] += fusion.name.startswith("online-softmax")
        if "reduce" in opcodes:
            found["beside a product" if is_product(fusion, opcodes) else "alone"] += 1
    return found


PROBE = Probe(
    name="reduction_fusion",
    figures="how many fusions reduce beside a product, and alone; whole softmaxes",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "a100:8"),
    cases={name: Case.of(partial(softmax, *of), fusions) for name, of in PROGRAMS.items()}
    | {
        "trained in f32": Case.of(partial(trained, 1.0), fusions),
        "trained in f32, scaled": Case.of(partial(trained, 0.125), fusions),
        "batch norm": Case.of(normed, fusions),
    },
)
