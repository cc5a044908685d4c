"""Kernels for what a TPU's convolutions take beside their arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import in_blocks, padding, side

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ROW, WIDEST, APART, GROUP, MADE = range(5)
"""The columns of `dot_window`."""


@inner
def tiled(size: float, tile: int) -> float:
    """A size rounded up to whole tiles, over the size."""
    return float(np.ceil(size / tile) * tile / size)


@inner
def grouped_padding(t: Tables, dot: int, batch: float) -> float:
    """Padding of a convolution with groups, by what its batch of channels comes to on a device.

    The compiler puts groups of one channel into a matrix together, on its diagonal, and convolves
    every larger group by itself.
    """
    window, columns = t.fusions.dot_window[dot], t.chip.tile_columns
    if window[GROUP] == 1:
        return tiled(max(batch, 1.0), columns) * columns
    return tiled(window[GROUP] * max(window[ROW], 1), columns) * tiled(window[MADE], columns)


@inner
def more_pixels(t: Tables, s: Scratch, dot: int) -> float:
    """How many times as many pixels are convolved as there are.

    Blocks overlap. Where images fill a tile, rows of zeros between pixels are left out.
    """
    tensor, apart = t.fusions.dot_operand[dot, 0, 1], t.fusions.dot_window[dot, APART]
    if t.tensors.image[tensor, 0] < 0:
        return 1.0
    if apart > 1 and side(t, s, tensor, t.tensors.image[tensor, 0]) >= t.chip.tile_rows:
        return 1.0 / apart
    return max(in_blocks(t, s, tensor), 1.0) if t.fusions.dot_window[dot, WIDEST] > 1 else 1.0


@inner
def blocking(t: Tables, s: Scratch, dot: int) -> float:
    """Seconds to bring the images that a convolution reads into blocks, and their tiles."""
    handled = 0.0
    if t.fusions.dot_window[dot, WIDEST] > 1:
        for operand in range(2):
            tensor = t.fusions.dot_operand[dot, operand, 1]
            blocks = in_blocks(t, s, tensor) if t.tensors.image[tensor, 0] >= 0 else 0.0
            if blocks > 0.0:
                size = s.tensors.local[tensor] / max(t.tensors.itemsize[tensor], 1.0)
                handled += size * blocks * padding(t, s, tensor, True)
    return handled / t.chip.blocking
