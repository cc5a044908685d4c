"""Lookups of windows and their gradients: how what is looked up, and added up, lies in memory.

Each is the gradient of the squares of sines of what is looked up, whole on each device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.scatter_fusion import laid_out

Lookup = Callable[..., jax.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """A `lookup` in an array of a shape, at places of other shapes."""

    lookup: Lookup
    shape: tuple[int, ...]
    places: tuple[tuple[int, ...], ...] = ()

    def module(self) -> bytes:
        """The StableHLO."""
        places = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in self.places]
        given = jax.ShapeDtypeStruct(self.shape, jnp.float32)
        return lowered_of(jax.value_and_grad(self._loss), given, *places)

    def _loss(self, table: jax.Array, *places: jax.Array) -> jax.Array:
        return (jnp.sin(self.lookup(table, *places)) ** 2).sum()


def rows(x: jax.Array, places: jax.Array) -> jax.Array:
    """Of the first dimension."""
    return x[places]


def lines(x: jax.Array, places: jax.Array) -> jax.Array:
    """Of the second."""
    return x[:, places]


def pixels(x: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """Of the second and the third."""
    return x[:, row, column]


def last(x: jax.Array, places: jax.Array) -> jax.Array:
    """Of the last."""
    return x[..., places]


def slices(x: jax.Array, places: jax.Array) -> jax.Array:
    """Slices of 64 rows."""
    return jax.vmap(lambda at: jax.lax.dynamic_slice(x, (at, 0), (64, x.shape[1])))(places)


def doubled(x: jax.Array) -> jax.Array:
    """Images of twice as many pixels either way."""
    examples, height, width, channels = x.shape
    return jax.image.resize(x, (examples, 2 * height, 2 * width, channels), "nearest")


WINDOWS = {
    "rows of 3": Windows(lookup=rows, shape=(4096, 3), places=((300_000,),)),
    "rows of 3 of a large table": Windows(lookup=rows, shape=(400_000, 3), places=((300_000,),)),
    "rows of 32 of a large table": Windows(lookup=rows, shape=(600_000, 32), places=((300_000,),)),
    "rows of 8 by 16": Windows(lookup=rows, shape=(4096, 8, 16), places=((65536,),)),
    "rows of 4 by 3": Windows(lookup=rows, shape=(4096, 4, 3), places=((65536,),)),
    "lines of 3": Windows(lookup=lines, shape=(16, 65536, 3), places=((131_072,),)),
    "lines of 8": Windows(lookup=lines, shape=(128, 4096, 8), places=((8192,),)),
    "lines of images": Windows(lookup=lines, shape=(8, 128, 128, 3), places=((256,),)),
    "lines of few": Windows(lookup=lines, shape=(64, 64, 512, 8), places=((16,),)),
    "pixels of 3": Windows(lookup=pixels, shape=(8, 256, 256, 3), places=((65536,),) * 2),
    "pixels of 16": Windows(lookup=pixels, shape=(64, 64, 64, 16), places=((16384,),) * 2),
    "columns": Windows(lookup=last, shape=(300_000, 16), places=((3,),)),
    "columns of three dimensions": Windows(lookup=last, shape=(64, 4096, 16), places=((3,),)),
    "slices": Windows(lookup=slices, shape=(300_000, 3), places=((2048,),)),
    "doubled images of 3": Windows(lookup=doubled, shape=(64, 256, 256, 3)),
    "doubled images of 16": Windows(lookup=doubled, shape=(16, 256, 256, 16)),
}

PROBE = Probe(
    name="windows",
    figures="MiB in main memory",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.module, laid_out) for name, one in WINDOWS.items()},
)
