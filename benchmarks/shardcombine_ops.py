"""Ops that the two models lack, each lowered by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

IMAGE = ("NHWC", "HWIO", "NHWC")


def other_ops() -> Iterator[jax.stages.Lowered]:
    """One small program per line of `_PROGRAMS`."""
    for function, shapes in _PROGRAMS:
        yield jax.jit(function).lower(*shapes)


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _ints(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def _conv(stride: int, groups: int) -> Callable[..., Any]:
    def apply(x: jax.Array, filters: jax.Array) -> Any:
        return lax.conv_general_dilated(
            x,
            filters,
            (stride, stride),
            "SAME",
            dimension_numbers=IMAGE,
            feature_group_count=groups,
        )

    return apply


def _pool(window: int, stride: int) -> Callable[[jax.Array], Any]:
    def apply(x: jax.Array) -> Any:
        sizes, strides = (1, window, window, 1), (1, stride, stride, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, "SAME")

    return apply


def _grad(function: Callable[..., Any]) -> Callable[..., Any]:
    def total(*arguments: jax.Array) -> Any:
        return jnp.sum(jnp.square(function(*arguments)))

    gradient: Callable[..., Any] = jax.grad(total)
    return gradient


_MATRIX = _floats(1024, 768)
_PIXELS = _floats(32, 56, 56, 64)
_PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x: lax.concatenate([x, x, x], 0), (_MATRIX,)),
    (lambda x, y: lax.concatenate([x, y], 1), (_MATRIX, _floats(1024, 64))),
    (lambda x: x[256:512], (_MATRIX,)),
    (lambda x: x[::2], (_MATRIX,)),
    (lambda x: lax.pad(x, 0.0, [(1, 1, 0), (0, 0, 1)]), (_MATRIX,)),
    (lambda x: lax.rev(x, (0,)), (_MATRIX,)),
    (lambda x: jnp.argmax(x, axis=1), (_MATRIX,)),
    (lambda x: jnp.prod(x, axis=1), (_MATRIX,)),
    (lambda x: jnp.any(x > 0, axis=1), (_MATRIX,)),
    (lambda x: jnp.sort(x, axis=1), (_MATRIX,)),
    (lambda x: jnp.argsort(x, axis=1), (_MATRIX,)),
    (lambda x: jnp.cumsum(x, axis=0), (_MATRIX,)),
    (lambda x: lax.top_k(x, 8), (_MATRIX,)),
    (jnp.fft.fft, (_MATRIX,)),
    (jnp.fft.rfft, (_MATRIX,)),
    (lambda x, i: x[i], (_floats(50257, 768), _ints(8, 1024))),
    (lambda x, i: jnp.take_along_axis(x, i, 1), (_MATRIX, _ints(1024, 8))),
    (lambda x, i, u: x.at[i].add(u), (_floats(50257, 768), _ints(1024), _MATRIX)),
    (lambda x, i: lax.dynamic_slice(x, (i, 0), (128, 768)), (_MATRIX, _ints())),
    (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), (_MATRIX, _floats(8, 768), _ints())),
    (lambda x: jnp.reshape(x, (8, 128, 12, 64)), (_MATRIX,)),
    (lambda x: jnp.reshape(x, (768, 1024)), (_MATRIX,)),
    (lambda x: jnp.einsum("abc,adc->abd", x, x), (_floats(8, 128, 64),)),
    (lambda x: lax.erf(jnp.clip(x, -1.0, 1.0)), (_MATRIX,)),
    (_conv(1, 64), (_PIXELS, _floats(3, 3, 1, 64))),
    (_conv(2, 4), (_PIXELS, _floats(3, 3, 16, 64))),
    (_grad(_conv(2, 1)), (_PIXELS, _floats(5, 5, 64, 128))),
    (_pool(2, 2), (_PIXELS,)),
    (_pool(3, 2), (_PIXELS,)),
    (_grad(_pool(3, 2)), (_PIXELS,)),
]
