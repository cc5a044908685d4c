"""Memory of nets of convolutions: images in tiles and blocks, and images that are results.

Each is a step of gradient descent, or makes images, with the images over all devices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets import conv, step
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered

NETS = {
    "8 images of 128 channels, normed": (64, 128, 128, 10, True),
    "4 images of 128 channels, normed": (32, 128, 128, 10, True),
    "4 images of 128 channels": (32, 128, 128, 10, False),
    "8 images of 320 channels, normed": (64, 64, 320, 10, True),
    "8 images of 2048 channels": (64, 16, 2048, 8, False),
}
"""Images on eight devices, pixels on a side, channels, layers, whether it is normed."""


MADE = {
    "64 images of 3 channels are made": (64, 64, 64, 3),
    "128 images of 1 channel are made": (128, 128, 32, 1),
    "1024 images of 3 channels are made": (1024, 64, 64, 3),
}
"""Images on eight devices, pixels on a side, channels before, and of what is made."""


def making(images: int, pixels: int, channels: int, made: int) -> bytes:
    """A net of two convolutions, of which the images are results."""

    def net(image: Any, first: Any, second: Any) -> Any:
        return jax.nn.relu(conv(jax.nn.relu(conv(image, first)), second))

    filters = (3, 3, made, channels), (3, 3, channels, made)
    return lowered(net, (images, pixels, pixels, made), *filters)


def spectrograms(*channel: int) -> bytes:
    """A net over 32 images of one channel, which are given with or without that."""

    def net(image: Any, first: Any, second: Any) -> Any:
        image = image.reshape(*image.shape[:3], 1)
        return jax.nn.relu(conv(jax.nn.relu(conv(image, first, 2)), second, 2)).max((1, 2))

    return lowered(net, (32, 1024, 80, *channel), (3, 3, 1, 128), (3, 3, 128, 128))


SPECTROGRAMS = {"spectrograms": (), "spectrograms with a channel": (1,)}


def mebibytes(compiled: Compiled) -> float:
    """MiB of main memory on a device."""
    return round((compiled.verdict.needed_bytes or 0) / 2**20, 1)


PROBE = Probe(
    name="nets_of_images",
    figures="MiB of main memory for a training step of convolutions, or to make images",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases=cases_of(
        {
            name: Layout(program=partial(step, *net), mesh="data=8", choices=(((net[3], 0), 0),))
            for name, net in NETS.items()
        }
        | {
            name: Layout(program=partial(making, *net), mesh="data=8", choices=(((0, 0), 0),))
            for name, net in MADE.items()
        }
        | {
            name: Layout(program=partial(spectrograms, *of), mesh="data=8", choices=(((0, 0), 0),))
            for name, of in SPECTROGRAMS.items()
        },
        mebibytes,
    ),
)
