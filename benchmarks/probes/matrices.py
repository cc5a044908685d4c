"""Layouts of attention: which two dimensions of what is multiplied in batches fill the tiles."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

LAYERS = 2
_LAID_OUT = re.compile(r"= \(?f32\[([\d,]+)\]\{(\d+),(\d+),")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Of `batch` windows of so many positions, with `heads` of `width` each."""

    batch: int
    positions: int
    heads: int
    width: int

    def module(self) -> bytes:
        """The gradient of layers of attention."""
        x = jax.ShapeDtypeStruct((self.batch, self.positions, self.heads, self.width), jnp.float32)
        return lowered_of(jax.grad(_attention), x)


def _attention(x: jax.Array) -> jax.Array:
    for _ in range(LAYERS):
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", x, x))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", jnp.sin(scores), x)
    return x.sum()


def tiled_dimensions(compiled: Compiled) -> dict[str, list[int]]:
    """By shape of four dimensions the two that most values of the shape have in their tiles."""
    counts: dict[str, Counter[tuple[int, ...]]] = {}
    entry = compiled.text[compiled.text.index("\nENTRY") :]
    for shape, last, before in _LAID_OUT.findall(entry):
        if shape.count(",") == 3:
            tile = tuple(sorted((int(last), int(before))))
            counts.setdefault(shape, Counter())[tile] += 1
    return {shape: list(found.most_common(1)[0][0]) for shape, found in sorted(counts.items())}


ATTENTION = {
    "49 positions": Attention(batch=1024, positions=49, heads=4, width=32),
    "50 positions": Attention(batch=512, positions=50, heads=8, width=64),
    "77 positions": Attention(batch=256, positions=77, heads=8, width=64),
    "197 positions": Attention(batch=64, positions=197, heads=8, width=64),
    "256 positions": Attention(batch=64, positions=256, heads=4, width=64),
    "36 positions": Attention(batch=1024, positions=36, heads=8, width=16),
    "25 positions": Attention(batch=2048, positions=25, heads=8, width=16),
    "16 positions": Attention(batch=4096, positions=16, heads=8, width=16),
    "12 positions": Attention(batch=4096, positions=12, heads=8, width=16),
    "9 positions": Attention(batch=4096, positions=9, heads=8, width=16),
}
"""Each device has all of them."""

PROBE = Probe(
    name="matrices",
    figures="the dimensions in the tiles of arrays of four dimensions",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.module, tiled_dimensions) for name, one in ATTENTION.items()},
)
