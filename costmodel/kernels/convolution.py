"""Kernels for what a TPU's convolutions take beside their arithmetic."""

from __future__ import annotations

from typing import Any

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import in_blocks, side, tiles

ROW, WIDEST, APART = range(3)
"""The columns of `dot_window`."""


@inner
def more_pixels(t: Any, s: Any, dot: int) -> float:
    """How many times as many pixels are convolved as there are.

    Blocks overlap. Of two tiles of images and more, rows of zeros between pixels are left out.
    """
    tensor, apart = t.dot_operand[dot, 0, 1], t.dot_window[dot, APART]
    if t.tensor_image[tensor, 0] < 0:
        return 1.0
    if apart > 1 and side(t, s, tensor, t.tensor_image[tensor, 0]) >= 2 * t.tile_rows:
        return 1.0 / apart
    return max(in_blocks(t, s, tensor), 1.0) if t.dot_window[dot, WIDEST] > 1 else 1.0


@inner
def blocking(t: Any, s: Any, dot: int) -> float:
    """Seconds to bring the images that a convolution reads into blocks, and their tiles."""
    handled = 0.0
    if t.dot_window[dot, WIDEST] > 1:
        for operand in range(2):
            tensor = t.dot_operand[dot, operand, 1]
            blocks = in_blocks(t, s, tensor) if t.tensor_image[tensor, 0] >= 0 else 0.0
            if blocks > 0.0:
                tiled, own = tiles(t, s, tensor, True)
                size = s.local[tensor] / max(t.tensor_itemsize[tensor], 1.0)
                handled += size * blocks * tiled / own
    return handled / t.blocking
