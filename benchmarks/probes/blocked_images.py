"""Memory of nets whose images are convolved in blocks of pixels, by how they are normalised.

Each is a step of gradient descent with four images on each of eight devices.
"""

from __future__ import annotations

from functools import partial

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets import scaled_step
from benchmarks.probes.nets_of_images import mebibytes
from benchmarks.probes.probe import Probe

BY_BATCH, BY_EXAMPLE = (0, 1, 2), (1, 2, 4)
LAYERS = 12
NETS = {
    "plain": (128, (), "float32"),
    "plain, in 16 bits": (128, (), "bfloat16"),
    "plain, of 48 channels": (48, (), "float32"),
    "normalised over the batch": (128, BY_BATCH, "float32"),
    "normalised by example": (128, BY_EXAMPLE, "float32"),
    "normalised by example, in 16 bits": (128, BY_EXAMPLE, "bfloat16"),
    "normalised by example, of 48 channels": (48, BY_EXAMPLE, "float32"),
}
"""Channels, the axes over which images are normalised, and their type."""


def step(channels: int, axes: tuple[int, ...], dtype: str, images: int = 32) -> bytes:
    """A step of a net of images of 128 x 128."""
    return scaled_step(images, 128, channels, LAYERS, axes, dtype)


PROBE = Probe(
    name="blocked_images",
    figures="MiB of main memory for a training step of twelve convolutions of four images",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases=cases_of(
        {
            name: Layout(
                program=partial(step, *net),
                mesh="data=8",
                choices=(((-1, 0), 0),),
            )
            for name, net in NETS.items()
        },
        mebibytes,
    ),
)
