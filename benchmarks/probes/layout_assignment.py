"""Bytes that arguments take in main memory: whole tiles of their two best dimensions."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

SHAPES: dict[str, tuple[tuple[int, ...], str]] = {
    "64x256xf32": ((64, 256), "float32"),
    "3x3x16x4xf32": ((3, 3, 16, 4), "float32"),
    "3x3x4x16xf32": ((3, 3, 4, 16), "float32"),
    "3x32x48xf32": ((3, 32, 48), "float32"),
    "48x32xbf16": ((48, 32), "bfloat16"),
    "200xf32": ((200,), "float32"),
    "f32": ((), "float32"),
    "256x4x8xf32": ((256, 4, 8), "float32"),
}
"""By how StableHLO writes them."""


def module(shape: tuple[int, ...], dtype: str) -> bytes:
    """The sine of an argument."""
    return lowered_of(jnp.sin, jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)))


def given(compiled: Compiled) -> int:
    """Bytes of the argument."""
    assert compiled.verdict.memory is not None
    return compiled.verdict.memory.argument


PROBE = Probe(
    name="layout_assignment",
    figures="bytes of an argument in main memory",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases={name: Case.of(partial(module, *of), given) for name, of in SHAPES.items()},
)
