"""Cycles of single operations: those that the price of elements and bytes covers, and others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

SIDE = 4096
MATRIX = (SIDE, SIDE)
IMAGES, LARGE_IMAGES = (64, 64, 64, 64), (64, 128, 128, 64)


def scanned(x: jax.Array) -> jax.Array:
    """A recurrence along rows, in logarithmically many steps."""
    found: jax.Array = lax.associative_scan(lambda a, b: a * b + b, x, axis=0)
    return found


def slopes(x: jax.Array) -> jax.Array:
    """The gradient of an average pooling."""
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)

    def loss(x: jax.Array) -> jax.Array:
        return (lax.reduce_window(x, 0.0, lax.add, window, strides, "SAME") ** 2).sum()

    return jax.grad(loss)(x)


def resized(method: str, x: jax.Array) -> jax.Array:
    """Images of twice the sides."""
    found: jax.Array = jax.image.resize(x, LARGE_IMAGES, method)
    return found


def drawn(key: jax.Array) -> jax.Array:
    """Random numbers by a key of two words."""
    words = key.astype(jnp.uint32)
    found: jax.Array = jax.random.normal(jax.random.wrap_key_data(words), MATRIX)
    return found


def spectrum(x: jax.Array) -> jax.Array:
    """Magnitudes of the frequencies in rows."""
    return jnp.abs(jnp.fft.fft(x.astype(jnp.complex64), axis=-1))


Step = Callable[..., Any]
OPERATIONS: dict[str, tuple[Step, tuple[tuple[int, ...], ...]]] = {
    "quotient": (lambda x: x / (x + 1), (MATRIX,)),
    "power": (lambda x: jnp.power(x, 2.3), (MATRIX,)),
    "complex product": (lambda x: jnp.real((x + 1j * x) * (x - 2j * x)), (MATRIX,)),
    "selection": (lambda x, mask: jnp.where(mask > 0, x, 0.0), (MATRIX, MATRIX)),
    "outer products": (lambda a, b: jnp.einsum("bi,bj->bij", a, b), ((SIDE, 128), (SIDE, 128))),
    "rolled columns": (lambda x: jnp.roll(x, 5, axis=1), (MATRIX,)),
    "random numbers": (drawn, ((2,),)),
    "gradient of pooling": (slopes, (LARGE_IMAGES,)),
    "products of 128": (lambda a, b: a @ b, ((SIDE, 128, 128), (SIDE, 128, 128))),
    "products of 512 x 64": (lambda a, b: a @ b, ((1024, 512, 64), (1024, 64, 512))),
    "products of 16": (lambda a, b: a @ b, ((16 * SIDE, 16, 16), (16 * SIDE, 16, 16))),
    "products of 64": (lambda a, b: a @ b, ((4 * SIDE, 64, 64), (4 * SIDE, 64, 64))),
    "maxima of rows": (lambda x: jnp.argmax(x, axis=-1), (MATRIX,)),
    "variance of rows": (lambda x: jnp.var(x, axis=-1), (MATRIX,)),
    "softmax of rows": (jax.nn.softmax, (MATRIX,)),
    "sums so far": (lambda x: jnp.cumsum(x, axis=0), (MATRIX,)),
    "recurrence": (scanned, (MATRIX,)),
    "padding": (lambda x: jnp.pad(x, ((1, 1), (1, 1))), (MATRIX,)),
    "odd join": (lambda x: jnp.concatenate([x, x[:, :64]], axis=1), (MATRIX,)),
    "frequencies": (spectrum, (MATRIX,)),
    "bilinear images": (partial(resized, "bilinear"), (IMAGES,)),
    "nearest images": (partial(resized, "nearest"), (IMAGES,)),
}


def cycles(compiled: Compiled) -> int:
    """Of all but copies, which bring arguments into layouts that whole programs choose."""
    return int(sum(n for kind, n in compiled.verdict.cycles.items() if kind != "copy"))


PROBE = Probe(
    name="single_operations",
    figures="cycles of an operation in f32",
    targets=("tpu-v5e:2x4",),
    cases={
        name: Case.of(partial(lowered, step, *shapes), cycles)
        for name, (step, shapes) in OPERATIONS.items()
    },
)
