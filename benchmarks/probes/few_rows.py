"""Products of few rows: on the matrix unit, or multiplied and added up on the vector unit.

A decode step multiplies one row of a query with a cache, and few rows with each weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Compiled, Figure, Probe
from benchmarks.probes.programs import lowered
from toast.aot.cycles import estimated_cycles

HEADS, LENGTH, DEPTH, WIDTH = 16, 2048, 128, 4096


def scores(query: Any, keys: Any) -> Any:
    """Of each head the product of a query with all keys."""
    return jnp.einsum("bhqd,bhkd->bhqk", query, keys)


def mixture(weights: Any, values: Any) -> Any:
    """Of each head the values, added up by weight."""
    return jnp.einsum("bhqk,bhkd->bhqd", weights, values)


def attention(query: Any, keys: Any, values: Any) -> Any:
    """Both, with a softmax between them, of keys as a cache keeps them."""
    found = jnp.einsum("bqhd,bkhd->bhqk", query, keys)
    found = jnp.exp(found - jnp.max(found, axis=-1, keepdims=True))
    return jnp.einsum("bhqk,bkhd->bqhd", found / jnp.sum(found, axis=-1, keepdims=True), values)


def grouped(query: Any, keys: Any, values: Any) -> Any:
    """Attention whose keys and values eight heads share: each is repeated for them."""
    heads = query.shape[2] // keys.shape[2]
    return attention(query, jnp.repeat(keys, heads, axis=2), jnp.repeat(values, heads, axis=2))


def product(x: Any, w: Any) -> Any:
    """Rows with a matrix."""
    return x @ w


def one(step: Callable[..., Any], *shapes: tuple[int, ...], dtype: str) -> Layout:
    """A program of arrays of these shapes on one device."""
    return Layout(program=partial(lowered, step, *shapes, dtype=dtype), mesh="a=2,b=2")


def _layouts() -> dict[str, Layout]:
    found = {}
    for dtype, name in (("bfloat16", "bf16"), ("float32", "f32")):
        for rows in (1, 2, 4, 8, 16):
            query = (8, HEADS, rows, DEPTH)
            keys, weights = (8, HEADS, LENGTH, DEPTH), (8, HEADS, rows, LENGTH)
            found[f"scores of {rows}, {name}"] = one(scores, query, keys, dtype=dtype)
            found[f"mixture of {rows}, {name}"] = one(mixture, weights, keys, dtype=dtype)
            shapes = (rows, WIDTH), (WIDTH, WIDTH)
            found[f"product of {rows}, {name}"] = one(product, *shapes, dtype=dtype)
        cache = (8, LENGTH, HEADS, DEPTH)
        whole = (8, 1, HEADS, DEPTH), cache, cache
        shared = (8, LENGTH, HEADS // 8, DEPTH)
        for rows in (1, 4, 256):
            given = (8, rows, HEADS, DEPTH), shared, shared
            found[f"attention of {rows}, shared keys, {name}"] = one(grouped, *given, dtype=dtype)
        found[f"attention of 1, {name}"] = one(attention, *whole, dtype=dtype)
        for heads in (2, 4):
            few = (8, LENGTH, heads, DEPTH)
            shapes_of_few = (8, 1, heads, DEPTH), few, few
            found[f"attention of 1, {heads} heads, {name}"] = one(
                attention, *shapes_of_few, dtype=dtype
            )
        found[f"columns of 1, {name}"] = one(product, (WIDTH, WIDTH), (WIDTH, 1), dtype=dtype)
    return found


def units(compiled: Compiled) -> Figure:
    """Cycles of what is launched: on the matrix unit, on the vector unit, and to copy."""
    found: dict[str, int] = {}
    for instruction, opcodes in launched(compiled):
        if spent := estimated_cycles(instruction):
            kind = "vector" if instruction.opcode == "fusion" else instruction.opcode
            kind = "matrix" if is_product(instruction, opcodes) else kind
            found[kind] = found.get(kind, 0) + spent
    return dict(sorted(found.items()))


PROBE = Probe(
    name="few_rows",
    figures="cycles by unit",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases=cases_of(_layouts(), units),
)
