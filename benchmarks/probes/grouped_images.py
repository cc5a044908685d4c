"""Convolutions with groups, by themselves and in the blocks of a ResNeXt: memory and cycles."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

BLOCKS = 3
"""Blocks of a net: 1 x 1, 3 x 3 in groups, 1 x 1, each normalised, and their sum with the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """So many images of one size, whose channels are convolved in `groups`."""

    batch: int
    pixels: int
    channels: int
    groups: int

    def single(self) -> bytes:
        """One convolution, and what is positive of it."""
        return lowered_of(
            lambda x, filters: jax.nn.relu(_convolved(x, filters, self.groups)),
            self._images(),
            self._filters(3, self.groups),
        )

    def net(self) -> bytes:
        """The gradients of all filters of some blocks."""
        block = self._filters(1, 1), self._filters(3, self.groups), self._filters(1, 1)

        def loss(blocks: list[tuple[jax.Array, ...]], x: jax.Array) -> jax.Array:
            for narrow, apart, wide in blocks:
                made = jax.nn.relu(_normed(_convolved(x, narrow, 1)))
                made = jax.nn.relu(_normed(_convolved(made, apart, self.groups)))
                x = jax.nn.relu(_normed(_convolved(made, wide, 1)) + x)
            return (x**2).mean()

        return lowered_of(jax.grad(loss), [block] * BLOCKS, self._images())

    def _images(self) -> jax.ShapeDtypeStruct:
        shape = self.batch, self.pixels, self.pixels, self.channels
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def _filters(self, side: int, groups: int) -> jax.ShapeDtypeStruct:
        shape = side, side, self.channels // groups, self.channels
        return jax.ShapeDtypeStruct(shape, jnp.float32)


def _convolved(x: jax.Array, filters: jax.Array, groups: int) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x,
        filters,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def _normed(x: jax.Array) -> jax.Array:
    """By the mean and the variance of each channel."""
    centred = x - x.mean((0, 1, 2))
    return centred * jax.lax.rsqrt((centred**2).mean((0, 1, 2)) + 1e-5)


def figures(compiled: Compiled) -> dict[str, float]:
    """MiB of main memory, and cycles."""
    memory = compiled.verdict.memory
    assert memory is not None
    assert memory.main is not None
    cycles = sum(compiled.verdict.cycles.values())
    return {"mib": round(memory.main / 2**20, 2), "cycles": int(cycles)}


SINGLE = {
    "8 images, groups of 16": Images(batch=8, pixels=64, channels=256, groups=16),
    "8 images, groups of 128": Images(batch=8, pixels=64, channels=256, groups=2),
    "32 images, groups of 16": Images(batch=32, pixels=32, channels=256, groups=16),
    "64 images, groups of 16": Images(batch=64, pixels=32, channels=256, groups=16),
    "128 images, groups of 16": Images(batch=128, pixels=16, channels=256, groups=16),
}
NETS = {
    "net, 8 images, no groups": Images(batch=8, pixels=32, channels=256, groups=1),
    "net, 8 images, groups of 16": Images(batch=8, pixels=32, channels=256, groups=16),
    "net, 32 images, no groups": Images(batch=32, pixels=32, channels=128, groups=1),
    "net, 32 images, groups of 16": Images(batch=32, pixels=32, channels=128, groups=8),
    "net, 128 images, groups of 32": Images(batch=128, pixels=16, channels=256, groups=8),
}
"""Each device has all of it."""

PROBE = Probe(
    name="grouped_images",
    figures="MiB of main memory, and cycles",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.single, figures) for name, one in SINGLE.items()}
    | {name: Case.of(one.net, figures) for name, one in NETS.items()},
)
