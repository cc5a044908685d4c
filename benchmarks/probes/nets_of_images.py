"""Memory of nets of convolutions: images in tiles and blocks.

Each is a step of gradient descent with the images over all devices.
"""

from __future__ import annotations

from functools import partial

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets import step
from benchmarks.probes.probe import Compiled, Probe

NETS = {
    "8 images of 128 channels, normed": (64, 128, 128, 10, True),
    "4 images of 128 channels, normed": (32, 128, 128, 10, True),
    "4 images of 128 channels": (32, 128, 128, 10, False),
    "8 images of 320 channels, normed": (64, 64, 320, 10, True),
    "8 images of 2048 channels": (64, 16, 2048, 8, False),
}
"""Images on eight devices, pixels on a side, channels, layers, whether it is normed."""


def mebibytes(compiled: Compiled) -> float:
    """MiB of main memory on a device."""
    return round((compiled.verdict.needed_bytes or 0) / 2**20, 1)


PROBE = Probe(
    name="nets_of_images",
    figures="MiB of main memory for a training step of convolutions",
    targets=("tpu-v5e:2x4", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases=cases_of(
        {
            name: Layout(program=partial(step, *net), mesh="data=8", choices=(((net[3], 0), 0),))
            for name, net in NETS.items()
        },
        mebibytes,
    ),
)
