"""How much of a chip's memory programs may have, and which values share a buffer there."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered, lowered_of

GIB, MIB = 2**30, 2**20
SIDE = 4096
"""Rows and columns of what takes 64 MiB in 32 bits."""


def too_large() -> bytes:
    """A copy of 256 GiB."""
    return lowered(jnp.sin, (2**16, 2**20))


def in_turn(products: int) -> bytes:
    """Products of which each reads the one before."""

    def step(x: Any, *weights: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    return lowered(step, *[(SIDE, SIDE)] * (products + 1))


def kept(products: int) -> bytes:
    """The same, and a last one that reads them all, in the opposite order."""

    def step(x: Any, *weights: Any) -> Any:
        made = []
        for weight in weights:
            x = jnp.tanh(x @ weight)
            made.append(x)
        for one in reversed(made[:-1]):
            x = jnp.tanh(x @ one)
        return x

    return lowered(step, *[(SIDE, SIDE)] * (products + 1))


def pooled(width: int) -> bytes:
    """The gradient by an image of what is made of its maxima over windows of so many pixels."""

    def loss(x: Any) -> Any:
        windows = (1, width, width, 1)
        maxima = jax.lax.reduce_window(jnp.sin(x), -jnp.inf, jax.lax.max, windows, windows, "SAME")
        return jnp.sum(jnp.sin(maxima))

    return lowered(jax.grad(loss), (64, 128, 128, 128))


def looked_up(rows: int) -> bytes:
    """The gradient of a table of 49,408 rows, of so many lookups on each of eight devices."""

    def step(i: Any, updates: Any) -> Any:
        return jnp.argmax(jnp.zeros((49408, 1280)).at[i].add(updates), axis=-1)

    rows_of = jax.ShapeDtypeStruct((8 * rows,), jnp.int32)
    return lowered_of(step, rows_of, jax.ShapeDtypeStruct((8 * rows, 1280), jnp.float32))


def loss_of(weights: Any, x: Any) -> Any:
    """A number that is made of products in turn."""
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.sum(jnp.sin(x))


def updated(layers: int) -> bytes:
    """A training step whose optimizer first reduces each gradient, which no other update needs."""

    def step(x: Any, *weights: Any) -> Any:
        gradients = jax.grad(loss_of)(weights, x)
        sizes = [jnp.sqrt(jnp.mean(one * one, axis=1, keepdims=True)) for one in gradients]
        return [w - g / size for w, g, size in zip(weights, gradients, sizes, strict=True)]

    shapes = (256, SIDE), *[(SIDE, SIDE)] * layers
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return lowered_of(step, *given, donated=tuple(range(1, layers + 1)))


def added(products: int, *, centred: bool = False) -> bytes:
    """Products of 256 MiB that are added to one value in turn, or to it less its rows' means."""

    def step(x: Any, up: Any, *given: Any) -> Any:
        for one in given:
            x = (x - x.mean(axis=-1, keepdims=True) if centred else x) + one @ up
        return jnp.argmax(x, axis=-1)

    return lowered(step, (2**16, 1024), (128, 1024), *[(2**16, 128)] * products)


def scaled(*, centred: bool) -> bytes:
    """Rows of what a product of 256 MiB is multiplied to, and the means of its rows taken off.

    The number that it is multiplied by is made of it by another product.
    """

    def step(x: Any, up: Any, down: Any, i: Any) -> Any:
        made = x @ up
        whole = made * jnp.sum(jnp.sin(made @ down))
        return (whole - made.mean(axis=-1, keepdims=True) if centred else whole)[i]

    shapes = (2**16, 128), (128, 1024), (1024, 8)
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return lowered_of(step, *given, jax.ShapeDtypeStruct((64,), jnp.int32))


def descended(layers: int) -> bytes:
    """A step of gradient descent on products with weights of 16 MiB, which it takes over."""

    def step(x: Any, *weights: Any) -> Any:
        gradients = jax.grad(loss_of)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    shapes = (512, 2048), *[(2048, 2048)] * layers
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return lowered_of(step, *given, donated=tuple(range(1, layers + 1)))


def temporary(compiled: Compiled) -> float:
    """MiB of main memory beside arguments and results."""
    memory = compiled.verdict.memory
    assert memory is not None
    return round((memory.total - memory.argument - memory.output + memory.alias) / MIB, 2)


def available(compiled: Compiled) -> float:
    """GiB, as the compiler says."""
    refusal = compiled.verdict.refusal
    assert refusal is not None
    assert refusal.available is not None
    return round(refusal.available / GIB, 2)


SUMMED = {
    f"{rows:,} rows scattered, and summed": Layout(
        program=partial(looked_up, rows), mesh="a=8", choices=(((1, 0), 0),)
    )
    for rows in (6100, 6200)
}
TOGETHER = {
    f"{n} gradients of 16 MiB, summed": Layout(
        program=partial(descended, n), mesh="a=8", choices=(((0, 0), 0),)
    )
    for n in (2, 7, 21)
}
PROBE = Probe(
    name="buffer_assignment",
    figures="GiB that a program may have of a chip's memory; MiB beside arguments and results",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "tpu-v6e:2x4", "a100:8"),
    cases={"256 GiB and a copy": Case.of(too_large, available)}
    | {f"{n} products in turn": Case.of(partial(in_turn, n), temporary) for n in (3, 12)}
    | {"12 products that are kept": Case.of(partial(kept, 12), temporary)}
    | {f"updates of {n} layers": Case.of(partial(updated, n), temporary) for n in (4, 12)}
    | {"7 gradients of 16 MiB": Case.of(partial(descended, 7), temporary)}
    | {f"maxima of {n} x {n}": Case.of(partial(pooled, n), temporary) for n in (2, 4)}
    | {f"{n} products added in turn": Case.of(partial(added, n), temporary) for n in (2, 6)}
    | {"a product, scaled": Case.of(partial(scaled, centred=False), temporary)}
    | {"a product, scaled and centred": Case.of(partial(scaled, centred=True), temporary)}
    | {"6 products added to what is centred": Case.of(partial(added, 6, centred=True), temporary)}
    | cases_of(SUMMED | TOGETHER, temporary),
)
