"""Products that are split: which parts are stored for those who read them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.probe import Case, Compiled, Probe, cycles
from benchmarks.probes.programs import lowered

BATCH, ROWS, WIDTH, HEADS = 4, 1024, 1024, 16
GIVEN, SQUARE = (BATCH, ROWS, WIDTH), (WIDTH, WIDTH)


def _heads(x: Any) -> Any:
    return x.reshape(*x.shape[:2], HEADS, -1)


def _attended(q: Any, k: Any, v: Any) -> Any:
    scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 8.0, axis=-1)
    return jnp.einsum("bhts,bshd->bthd", scores, v)


def attention(x: Any, w: Any) -> Any:
    """Queries, keys and values that one product makes."""
    return _attended(*map(_heads, jnp.split(x @ w, 3, axis=-1)))


def attention_apart(x: Any, *weights: Any) -> Any:
    """The same of three products."""
    return _attended(*(_heads(x @ w) for w in weights))


def states(x: Any, w: Any) -> Any:
    """Two parts that a batch of products multiplies with each other, over many rows."""
    k, v = map(_heads, jnp.split(x @ w, 2, axis=-1))
    return jnp.einsum("bthd,bthe->bhde", k, v)


def alone(x: Any, w: Any, u: Any, v: Any) -> Any:
    """Two parts, each of which a product without a batch reads."""
    one, two = jnp.split(x @ w, 2, axis=-1)
    return one @ u + two @ v


def gated(x: Any, w: Any, v: Any) -> Any:
    """Two parts of which arithmetic makes one, and a product of that."""
    one, two = jnp.split(x @ w, 2, axis=-1)
    return (one * jax.nn.sigmoid(two)) @ v


def figures(compiled: Compiled) -> dict[str, float]:
    """Parts that are stored by launches that multiply and reduce nothing, and all cycles."""
    parts = sum(
        len(one.shapes)
        for one, opcodes in launched(compiled)
        if "slice" in opcodes and "reduce" not in opcodes and not is_product(one, opcodes)
    )
    return {"parts": parts, "cycles": cycles(compiled)}


CASES = {
    "attention": partial(lowered, attention, GIVEN, (WIDTH, 3 * WIDTH)),
    "attention of three products": partial(lowered, attention_apart, GIVEN, *[SQUARE] * 3),
    "states": partial(lowered, states, GIVEN, (WIDTH, 2 * WIDTH)),
    "products without a batch": partial(lowered, alone, GIVEN, (WIDTH, 2 * WIDTH), SQUARE, SQUARE),
    "gated": partial(lowered, gated, GIVEN, (WIDTH, 2 * WIDTH), SQUARE),
}

PROBE = Probe(
    name="split_products",
    figures="parts that are stored by launches that multiply and reduce nothing; all cycles",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(module, figures) for name, module in CASES.items()},
)
