"""Memory of nets whose images are convolved in blocks of pixels, by how they are normalised.

Each is a step of gradient descent with four images on each of eight devices.
"""

from __future__ import annotations

from functools import partial

from benchmarks.probes.deferred_filter_gradients import mebibytes
from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets import scaled_step
from benchmarks.probes.probe import Probe

BY_BATCH, BY_EXAMPLE = (0, 1, 2), (1, 2, 4)
LAYERS = 12
NETS = {
    "plain": ((), "float32"),
    "plain, in 16 bits": ((), "bfloat16"),
    "normalised over the batch": (BY_BATCH, "float32"),
    "normalised by example": (BY_EXAMPLE, "float32"),
    "normalised by example, in 16 bits": (BY_EXAMPLE, "bfloat16"),
}
"""The axes over which images are normalised, and their type."""

PROBE = Probe(
    name="blocked_images",
    figures="MiB of main memory for a training step of twelve convolutions of four images",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2"),
    cases=cases_of(
        {
            name: Layout(
                program=partial(scaled_step, 32, 128, 128, LAYERS, *net),
                mesh="data=8",
                choices=(((-1, 0), 0),),
            )
            for name, net in NETS.items()
        },
        mebibytes,
    ),
)
