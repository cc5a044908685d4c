"""Cycles of single convolutions and their gradients: what fills the tiles of the matrix unit.

What is convolved is computed first, so that it lies on the chip and arithmetic is what bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe


def computed(x: jax.Array) -> jax.Array:
    """What is made of an argument by itself, before it is convolved."""
    return jax.lax.optimization_barrier(jnp.tanh(x))


class Form(IntEnum):
    """A convolution, or the gradient of its image or of its filter."""

    FORWARD = 0
    IMAGE = 1
    FILTER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """One of `source` channels that makes `made`, of images of `pixels` x `pixels`."""

    form: Form
    source: int
    made: int
    side: int = 3
    stride: int = 1
    groups: int = 1
    batch: int = 8
    pixels: int = 32

    def module(self) -> bytes:
        """The StableHLO."""
        large = self.pixels * self.stride
        x = jax.ShapeDtypeStruct((self.batch, large, large, self.source), jnp.float32)
        filters = jax.ShapeDtypeStruct(
            (self.side, self.side, self.source // self.groups, self.made), jnp.float32
        )
        slope = jax.ShapeDtypeStruct((self.batch, self.pixels, self.pixels, self.made), jnp.float32)

        def convolve(x: jax.Array, filters: jax.Array) -> jax.Array:
            return jax.lax.conv_general_dilated(
                x,
                filters,
                (self.stride, self.stride),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=self.groups,
            )

        def forward(x: jax.Array, filters: jax.Array) -> jax.Array:
            return convolve(computed(x), filters)

        def of_image(slope: jax.Array, filters: jax.Array) -> jax.Array:
            return jax.linear_transpose(lambda x: convolve(x, filters), x)(computed(slope))[0]

        def of_filter(slope: jax.Array, x: jax.Array) -> jax.Array:
            found = jax.linear_transpose(lambda k: convolve(computed(x), k), filters)(
                computed(slope)
            )
            return found[0]

        if self.form == Form.FORWARD:
            return jax.jit(forward).lower(x, filters).as_text().encode()
        if self.form == Form.IMAGE:
            return jax.jit(of_image).lower(slope, filters).as_text().encode()
        return jax.jit(of_filter).lower(slope, x).as_text().encode()


def cycles(compiled: Compiled) -> int:
    """Those that the compiler estimates for convolutions and what is fused with them."""
    return int(compiled.verdict.cycles["contraction"])


FORWARD, IMAGE, FILTER = Form
CONVOLUTIONS = {
    "128 to 256 channels": Convolution(form=FORWARD, source=128, made=256),
    "64 to 256, one pixel": Convolution(form=FORWARD, source=64, made=256, side=1),
    "64 to 64": Convolution(form=FORWARD, source=64, made=64),
    "96 to 256": Convolution(form=FORWARD, source=96, made=256),
    "160 to 256": Convolution(form=FORWARD, source=160, made=256),
    "192 to 256": Convolution(form=FORWARD, source=192, made=256),
    "320 to 256": Convolution(form=FORWARD, source=320, made=256),
    "64 to 256, 7 x 7": Convolution(form=FORWARD, source=64, made=256, side=7),
    "64 to 256, stride 2": Convolution(form=FORWARD, source=64, made=256, stride=2),
    "256 to 64": Convolution(form=FORWARD, source=256, made=64),
    "256 to 160": Convolution(form=FORWARD, source=256, made=160),
    "image of 64 to 256": Convolution(form=IMAGE, source=64, made=256),
    "image of 256 to 64": Convolution(form=IMAGE, source=256, made=64),
    "image of 160 to 256": Convolution(form=IMAGE, source=160, made=256),
    "image of 256 to 160": Convolution(form=IMAGE, source=256, made=160),
    "image, stride 2, 8 of 28 x 28": Convolution(
        form=IMAGE, source=256, made=256, stride=2, pixels=28
    ),
    "image, stride 2, 16 of 28 x 28": Convolution(
        form=IMAGE, source=256, made=256, stride=2, batch=16, pixels=28
    ),
    "image, stride 2, 16 of 32 x 32": Convolution(
        form=IMAGE, source=256, made=256, stride=2, batch=16
    ),
    "image, stride 2, 640 to 640": Convolution(
        form=IMAGE, source=640, made=640, stride=2, pixels=14
    ),
    "image, stride 2, one pixel": Convolution(
        form=IMAGE, source=256, made=256, side=1, stride=2, batch=16, pixels=28
    ),
    "image, stride 2, 32 of 16 x 16": Convolution(
        form=IMAGE, source=512, made=512, stride=2, batch=32, pixels=16
    ),
    "image, stride 2, 64 of 16 x 16": Convolution(
        form=IMAGE, source=512, made=512, stride=2, batch=64, pixels=16
    ),
    "image, stride 4, 8 of 16 x 16": Convolution(
        form=IMAGE, source=256, made=256, side=5, stride=4, pixels=16
    ),
    "image, stride 2, 4 of 32 x 32": Convolution(
        form=IMAGE, source=128, made=128, stride=2, batch=4
    ),
    "image, stride 2, 5 x 5, 4 of 32 x 32": Convolution(
        form=IMAGE, source=128, made=128, side=5, stride=2, batch=4
    ),
    "filter of 160 to 256": Convolution(form=FILTER, source=160, made=256),
    "filter of 256 to 160": Convolution(form=FILTER, source=256, made=160),
    "256 groups of one": Convolution(form=FORWARD, source=256, made=256, groups=256),
    "256 groups of one, 7 x 7": Convolution(form=FORWARD, source=256, made=256, side=7, groups=256),
    "64 groups of one": Convolution(form=FORWARD, source=64, made=64, groups=64),
    "image, 256 groups of one": Convolution(form=IMAGE, source=256, made=256, groups=256),
    "2 groups of 128": Convolution(form=FORWARD, source=256, made=256, groups=2),
    "4 groups of 64": Convolution(form=FORWARD, source=256, made=256, groups=4),
    "16 groups of 16": Convolution(form=FORWARD, source=256, made=256, groups=16),
}
"""Mostly of 8 images of 32 x 32: one alone on each device."""

PROBE = Probe(
    name="convolution_tiling",
    figures="cycles of a convolution of computed images",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases={name: Case.of(one.module, cycles) for name, one in CONVOLUTIONS.items()},
)
