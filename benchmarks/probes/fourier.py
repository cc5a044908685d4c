"""Cycles of Fourier transforms by themselves, by their lengths and by what they read and make."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

ELEMENTS = 2**23
"""Complex ones of each transform, or about as many."""
Step = Callable[..., Any]


def parts(found: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The real and the imaginary part, which jax's own numbers hold."""
    return found.real, found.imag


def forward(real: jax.Array, imaginary: jax.Array, *, axis: int = -1) -> Any:
    """Of complex numbers along one dimension."""
    return parts(jnp.fft.fft(jax.lax.complex(real, imaginary), axis=axis))


def both_dimensions(real: jax.Array, imaginary: jax.Array) -> Any:
    """Of complex numbers along the last two dimensions."""
    return parts(jnp.fft.fft2(jax.lax.complex(real, imaginary)))


def of_real(x: jax.Array) -> Any:
    """Of real numbers."""
    return parts(jnp.fft.rfft(x, axis=-1))


def to_real(real: jax.Array, imaginary: jax.Array) -> jax.Array:
    """Back to real numbers."""
    return jnp.fft.irfft(jax.lax.complex(real, imaginary), axis=-1)


def rows(length: int) -> tuple[int, int]:
    """So many rows that all have about `ELEMENTS`."""
    return ELEMENTS // length, length


TRANSFORMS: dict[str, tuple[Step, tuple[tuple[int, ...], ...]]] = {
    **{f"{n}": (forward, (rows(n), rows(n))) for n in (32, 128, 256, 1000, 2048, 16384, 32768)},
    "2048 along columns": (partial(forward, axis=1), ((8, 2048, 512),) * 2),
    "64 by 64": (both_dimensions, ((ELEMENTS // 4096, 64, 64),) * 2),
    "2048 of real": (of_real, (rows(2048),)),
    "2048 to real": (to_real, ((ELEMENTS // 2048, 1025),) * 2),
}


def cycles(compiled: Compiled) -> dict[str, int]:
    """By what they are spent on."""
    return {kind: round(each) for kind, each in sorted(compiled.verdict.cycles.items())}


PROBE = Probe(
    name="fourier",
    figures="cycles of a Fourier transform in f32, by what they are spent on",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={
        name: Case.of(partial(lowered, step, *shapes), cycles)
        for name, (step, shapes) in TRANSFORMS.items()
    },
)
