"""Products that are split, spread or turned: what is stored between them by passes of its own."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.probe import Case, Compiled, Probe, cycles
from benchmarks.probes.programs import lowered

BATCH, ROWS, WIDTH, HEADS = 4, 1024, 1024, 16
GIVEN, SQUARE, TALL = (BATCH, ROWS, WIDTH), (WIDTH, WIDTH), (2 * WIDTH, WIDTH)
FEW = math.isqrt(ROWS)
ELEMENTS = BATCH * ROWS * WIDTH


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


def pairs(x: Any, w: Any) -> Any:
    """What a product makes of each pair of rows of an example."""
    many = (*x.shape[:2], *x.shape[1:])
    left, right = (jnp.broadcast_to(one, many) for one in (x[:, :, None], x[:, None]))
    return jax.nn.relu(jnp.concatenate([left, right], axis=-1) @ w).sum((1, 2))


def beside_all(x: Any, g: Any, w: Any) -> Any:
    """What a product makes of each row beside what all rows of an example have in common."""
    return jnp.concatenate([jnp.broadcast_to(g, x.shape), x], axis=-1) @ w


def turned(x: Any, w: Any, angles: Any) -> Any:
    """What a product makes, its halves turned by angles, as rotary positions are."""
    made = x @ w
    one, two = jnp.split(made, 2, axis=-1)
    return made * jnp.cos(angles) + jnp.concatenate([-two, one], axis=-1) * jnp.sin(angles)


def figures(compiled: Compiled) -> dict[str, float]:
    """Matrices that are stored by launches that multiply and reduce nothing, and all cycles."""
    passes = sum(
        math.prod(shape.dims) >= ELEMENTS
        for one, opcodes in launched(compiled)
        if not {"reduce", "copy"} & {*opcodes} and not is_product(one, opcodes)
        for shape in one.shapes
    )
    return {"passes": passes, "cycles": cycles(compiled)}


CASES = {
    "attention": partial(lowered, attention, GIVEN, (WIDTH, 3 * WIDTH)),
    "attention of three products": partial(lowered, attention_apart, GIVEN, *[SQUARE] * 3),
    "states": partial(lowered, states, GIVEN, (WIDTH, 2 * WIDTH)),
    "products without a batch": partial(lowered, alone, GIVEN, (WIDTH, 2 * WIDTH), SQUARE, SQUARE),
    "gated": partial(lowered, gated, GIVEN, (WIDTH, 2 * WIDTH), SQUARE),
    "pairs": partial(lowered, pairs, (BATCH, FEW, WIDTH), TALL),
    "beside what all have": partial(lowered, beside_all, GIVEN, (BATCH, 1, WIDTH), TALL),
    "turned": partial(lowered, turned, GIVEN, SQUARE, (ROWS, WIDTH)),
}

PROBE = Probe(
    name="split_products",
    figures="matrices that are stored by launches that multiply and reduce nothing; all cycles",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(module, figures) for name, module in CASES.items()},
)
