"""What is computed inside what reads it: by launch, what it computes and what it stores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

SIDE = 1024
INSIDE = (SIDE, 4 * SIDE)
"""Rows and columns of what a layer makes inside."""
TOLD = ("tanh", "exponential", "sqrt", "select", "reduce", "subtract", "gather", "copy")
"""Of what is inside a launch that is no product, what its programs are written to show."""


def chain(x: Any) -> Any:
    """One elementwise op behind another."""
    return jnp.exp(jnp.tanh(x))


def into_product(x: Any, w: Any) -> Any:
    """A costly op feeds a product, and another is made of it."""
    return jnp.tanh(jnp.exp(x) @ w)


def updated(x: Any, y: Any, w: Any) -> Any:
    """A gradient that one elementwise fusion reads."""
    return w - 0.1 * jnp.sqrt(jnp.abs(x.T @ y))


def shared(x: Any, w: Any, v: Any) -> Any:
    """A costly op that two products read."""
    made = jnp.tanh(x)
    return made @ w, made @ v


def narrowed(x: Any, w: Any, v: Any) -> Any:
    """A product that is narrowed behind arithmetic, then widened again for its two readers."""
    made = jnp.tanh(x @ w).astype(jnp.bfloat16).astype(jnp.float32)
    return jnp.exp(made), made.T @ v


def scores(x: Any, w: Any, mask: Any, v: Any) -> Any:
    """Masked scores that the maximum of their rows reads, and the exponential behind it."""
    made = jnp.where(mask > 0.0, x @ w, -1e9)
    top = jax.lax.stop_gradient(made.max(axis=1, keepdims=True))
    return jnp.exp(made - top) @ v


def scores_kept(x: Any, w: Any, mask: Any, v: Any) -> Any:
    """The same, which one more op reads."""
    made = jnp.where(mask > 0.0, x @ w, -1e9)
    top = made.max(axis=1, keepdims=True)
    return jnp.exp(made - top) @ v, jnp.tanh(made.T) @ v


def padded(x: Any, w: Any) -> Any:
    """What is computed, padded by a row, and read by a product."""
    return jnp.pad(jnp.exp(x)[1:], ((0, 1), (0, 0))) @ w


def padded_alone(x: Any) -> Any:
    """What is computed, padded by a row, and read elementwise."""
    return jnp.tanh(jnp.pad(jnp.exp(x)[1:], ((0, 1), (0, 0))))


def spread(x: Any) -> Any:
    """What is computed, padded between its rows, and read elementwise."""
    return jnp.tanh(jax.lax.pad(jnp.exp(x), x.dtype.type(0), ((0, 1, 1), (0, 0, 0))))


def every_other_row(x: Any) -> Any:
    """Every other row of what is computed, and what is computed of those."""
    return jnp.tanh(jnp.exp(x)[::2])


def every_other_block(x: Any) -> Any:
    """Every other block of rows of what is computed, and what is computed of those."""
    return jnp.tanh(jnp.exp(x.reshape(16, -1, x.shape[1]))[::2])


def halved(x: Any) -> Any:
    """The product of both halves of what is computed."""
    made = jnp.exp(x) * 2.0
    return made[: SIDE // 2] * made[SIDE // 2 :]


def first_half(x: Any) -> Any:
    """What is computed of one half of what is computed, of which nobody reads the other."""
    return jnp.tanh((jnp.exp(x) * 2.0)[: SIDE // 2])


def joined(x: Any, y: Any) -> Any:
    """Two computed matrices, joined and read elementwise."""
    return jnp.sqrt(jnp.concatenate([jnp.exp(x), jnp.tanh(y)], axis=1))


def looked_up(x: Any, i: Any) -> Any:
    """Rows of a scaled table, and what is computed of them."""
    return jnp.tanh(jnp.exp(x).at[i[0].astype(jnp.int32)].get(mode="clip"))


def greatest(x: Any, w: Any) -> Any:
    """The maximum of each row of a product, and nothing else of it."""
    return jnp.tanh(x @ w).max(axis=1)


def gelu(x: Any, w: Any, v: Any, d: Any) -> Any:
    """A layer with the error function in it, and its gradients."""

    def layer(x: Any, w: Any, v: Any) -> Any:
        made = x @ w
        return 0.5 * made * jax.lax.erfc(made * -0.7071) @ v

    made, back = jax.vjp(layer, x, w, v)
    return made, back(d)


def gelu_of_sum(x: Any, w: Any, v: Any, d: Any, b: Any) -> Any:
    """The same of a layer with a bias."""

    def layer(x: Any, w: Any, v: Any, b: Any) -> Any:
        made = x @ w + b
        return 0.5 * made * jax.lax.erfc(made * -0.7071) @ v

    made, back = jax.vjp(layer, x, w, v, b)
    return made, back(d)


def loss(x: Any, w: Any, i: Any) -> Any:
    """The loss of widened scores by labels that are looked up, and its gradients."""

    def mean(x: Any, w: Any) -> Any:
        made = jax.nn.log_softmax((x @ w).astype(jnp.float32), axis=-1)
        labels = i[:, :1].astype(jnp.int32)
        return jnp.mean(jnp.take_along_axis(made, labels, axis=-1, mode="clip"))

    return jax.value_and_grad(mean, argnums=(0, 1))(x, w)


def summed(*given: Any) -> Any:
    """One sum of many arrays."""
    total = given[0]
    for one in given[1:]:
        total = total + one
    return total


def computed(compiled: Compiled) -> list[str]:
    """By launch what it computes and the types of what it stores."""
    found = []
    for one, opcodes in launched(compiled):
        inside = [name for name in TOLD if name in opcodes]
        if is_product(one, opcodes):
            inside.insert(0, "product")
        stored = sorted({f"{shape.dtype}{list(shape.dims)}" for shape in one.shapes})
        found.append(f"{' '.join(inside) or one.opcode} -> {' '.join(stored)}")
    return found


def activations(compiled: Compiled) -> list[str]:
    """The types of all that launches store in the shape of what a layer makes inside."""
    return sorted(
        shape.dtype
        for one, _ in launched(compiled)
        for shape in one.shapes
        if tuple(shape.dims) == INSIDE
    )


def most_read(compiled: Compiled) -> int:
    """The most values that a fusion reads."""
    return max(len(one.operands) for one, _ in launched(compiled))


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "chain": (chain, 1),
    "into a product": (into_product, 2),
    "gradient in an update": (updated, 3),
    "costly op of two products": (shared, 3),
    "narrowed behind a product": (narrowed, 3),
    "padded for a product": (padded, 2),
    "padded for another op": (padded_alone, 1),
    "padded between rows": (spread, 1),
    "every other row": (every_other_row, 1),
    "every other block of rows": (every_other_block, 1),
    "both halves": (halved, 1),
    "one half": (first_half, 1),
    "two joined": (joined, 2),
    "rows of a scaled table": (looked_up, 2),
    "maximum of a product": (greatest, 2),
    "scores of a softmax": (scores, 4),
    "scores of a softmax and another op": (scores_kept, 4),
}
LAYERS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "error function": (
        gelu,
        ((SIDE, 2 * SIDE), (2 * SIDE, 4 * SIDE), (4 * SIDE, 2 * SIDE), (SIDE, 2 * SIDE)),
    ),
    "error function, biased": (
        gelu_of_sum,
        (
            (SIDE, 2 * SIDE),
            (2 * SIDE, 4 * SIDE),
            (4 * SIDE, 2 * SIDE),
            (SIDE, 2 * SIDE),
            (4 * SIDE,),
        ),
    ),
    "labels looked up": (loss, ((SIDE, 2 * SIDE), (2 * SIDE, 4 * SIDE), (SIDE, 2 * SIDE))),
}
"""Layers, and the shapes of what they are given."""
MANY = (16, 24, 32, 64, 128)

PROBE = Probe(
    name="fusion",
    figures="by launch what it computes and stores; types of what a layer stores of what it makes; "
    "the most values that a sum reads at once",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "a100:8"),
    cases={
        name: Case.of(partial(lowered, of, *[(SIDE, SIDE)] * count), computed)
        for name, (of, count) in PROGRAMS.items()
    }
    | {
        "into a product in 16 bits": Case.of(
            partial(lowered, into_product, *[(4 * SIDE, 4 * SIDE)] * 2, dtype="bfloat16"), computed
        )
    }
    | {
        f"{name}, {dtype}": Case.of(partial(lowered, of, *shapes, dtype=dtype), activations)
        for name, (of, shapes) in LAYERS.items()
        for dtype in ("bfloat16", "float32")
    }
    | {
        f"sum of {n}": Case.of(partial(lowered, summed, *[(SIDE, SIDE)] * n), most_read)
        for n in MANY
    },
)
