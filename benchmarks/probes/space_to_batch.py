"""How few images are convolved: in blocks of pixels, and what it takes to make those."""

from __future__ import annotations

from functools import partial

from benchmarks.probes.nets import chain
from benchmarks.probes.probe import Case, Compiled, Probe

CHAINS = {
    "1 image of 64 x 64, 128 channels": (1, 64, (128, 128, 128)),
    "1 image of 64 x 64, 64 channels": (1, 64, (64, 64, 64)),
    "2 images of 64 x 64, 128 to 256 to 128": (2, 64, (128, 256, 128)),
    "4 images of 32 x 32, 256 channels": (4, 32, (256, 256, 256)),
    "8 images of 64 x 64, 128 channels": (8, 64, (128, 128, 128)),
    "4 images of 128 x 128, 32 channels": (4, 128, (32, 32, 32)),
    "4 images of 128 x 128, 64 channels": (4, 128, (64, 64, 64)),
    "4 images of 32 x 32, 128 channels": (4, 32, (128, 128, 128)),
    "7 images of 32 x 32, 128 channels": (7, 32, (128, 128, 128)),
    "8 images of 32 x 32, 128 channels": (8, 32, (128, 128, 128)),
}
"""The gradients of two convolutions: images, pixels on a side, channels."""


def read(compiled: Compiled, pixels: int) -> dict[str, int]:
    """Cycles of everything, and how many convolutions make images in eight blocks of pixels.

    A block has a row of pixels that is its neighbour's.
    """
    convolutions = [one for one in compiled.instructions() if one.opcode == "convolution"]
    cut = [one for one in convolutions if pixels // 8 + 1 in one.shapes[0].dims]
    return {"cycles": int(sum(compiled.verdict.cycles.values())), "in blocks": len(cut)}


PROBE = Probe(
    name="space_to_batch",
    figures="cycles of the gradients of two convolutions, and how many run in blocks of pixels",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "tpu-v4:2x2x2", "tpu-v6e:2x4"),
    cases={
        name: Case.of(partial(chain, *net), partial(read, pixels=net[1]))
        for name, net in CHAINS.items()
    },
)
