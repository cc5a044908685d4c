"""Kernels for what a TPU's convolutions take beside their arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import in_blocks, padding, side

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ROW, WIDEST, APART, SPREAD, SPLITS, GROUP, MADE = range(7)
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

    Blocks overlap. Zeros between pixels are left out, but the unit takes other weights for each
    pixel of a window then, and as long for few images as for `rows_apart`.
    """
    tensor, window = t.fusions.dot_operand[dot, 0, 1], t.fusions.dot_window[dot]
    batch = t.tensors.image[tensor, 0]
    if batch < 0:
        return 1.0
    blocks = in_blocks(t, s, tensor) if window[WIDEST] > 1 else 0.0
    if window[APART] == 1:
        return max(blocks, 1.0)
    if not _apart_in_blocks(t, s, dot):
        blocks = 0.0
    images = side(t, s, tensor, batch) * (t.chip.tile_rows if blocks > 0.0 else 1)
    return max(blocks, 1.0) * tiled(float(images), t.chip.rows_apart) / window[SPREAD]


@inner
def _apart_in_blocks(t: Tables, s: Scratch, dot: int) -> bool:
    """Whether an image whose pixels lie apart is convolved in blocks, if it is one of few.

    Where blocks overlap before their first pixel they have more than two.
    """
    tensor, splits = t.fusions.dot_operand[dot, 0, 1], t.fusions.dot_window[dot, SPLITS]
    pixels = side(t, s, tensor, t.tensors.image[tensor, 1]) // t.chip.tile_rows
    return bool(splits > 1 or (splits == 1 and pixels > 2))


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
