"""Kernels for what a TPU's convolutions take beside their arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import (
    groups_apart,
    in_blocks,
    in_lines,
    padding,
    side,
)

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ROW, WIDEST, APART, SPREAD, SPLITS, GROUP, MADE = range(7)
"""The columns of `dot_window`."""
ENTERS, LEAVES, HANDED = range(3)
"""The columns of `dot_passage`."""


@inner
def tiled(size: float, tile: int) -> float:
    """A size rounded up to whole tiles, over the size."""
    return float(np.ceil(size / tile) * tile / size)


@inner
def grouped_padding(t: Tables, s: Scratch, dot: int, batch: float) -> float:
    """Padding of a convolution with groups, by what its batch of channels comes to on a device.

    The compiler puts groups of one channel into a matrix together, on its diagonal, and convolves
    every larger group by itself. Where images are the columns of tiles, channels stream through.
    The weights of a tile take as long as half its columns to change, which the gradient of a
    filter does for each of its pixels.
    """
    window, columns = t.fusions.dot_window[dot], t.chip.tile_columns
    if window[GROUP] == 1:
        return tiled(max(batch, 1.0), columns) * columns
    tensor, made = t.fusions.dot_operand[dot, 0, 1], tiled(window[MADE], columns)
    if groups_apart(t, s, tensor)[1]:
        images = tiled(side(t, s, tensor, t.tensors.image[tensor, 0]), columns)
        return images * (tiled(window[GROUP], columns) if window[ROW] else made)
    if window[ROW]:
        return tiled(window[GROUP] * window[ROW], columns) * made
    return max(columns / 2 / window[GROUP], 1.0) * made


@inner
def grouped(t: Tables, s: Scratch, dot: int) -> tuple[float, float]:
    """Elements that a convolution makes with its groups apart, and those copied for and behind it.

    What it reads is copied to lie so, and what it makes is copied back.
    """
    window, made = t.fusions.dot_window[dot], t.fusions.dot_sums[dot]
    if window[GROUP] <= 1 or window[ROW] == 0:
        return 0.0, 0.0
    copied, apart = 0.0, 0.0
    for tensor in (t.fusions.dot_operand[dot, 0, 1], made):
        size = s.tensors.stored[tensor] / max(t.tensors.itemsize[tensor], 1.0)
        apart = size * groups_apart(t, s, tensor)[0]
        copied += size + apart if apart > 0.0 else 0.0
    return apart, copied


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
    """Seconds to bring images into blocks, and their tiles, and to bring them back.

    Those that a convolution reads, where no other one left them so, and what it makes, where none
    takes it so.
    """
    handled, passage = 0.0, t.fusions.dot_passage[dot]
    if t.fusions.dot_window[dot, WIDEST] > 1:
        for operand in range(2):
            if passage[ENTERS]:
                handled += _brought(t, s, t.fusions.dot_operand[dot, operand, 1], passage[HANDED])
        if passage[LEAVES]:
            handled += _brought(t, s, t.fusions.dot_sums[dot], passage[HANDED])
    return handled / t.chip.blocking


@inner
def _brought(t: Tables, s: Scratch, tensor: int, tiled: bool) -> float:
    """Elements that are handled to bring an image into blocks, or back.

    If it is `tiled`, with those that fill up its tiles.
    """
    blocks = in_blocks(t, s, tensor) if t.tensors.image[tensor, 0] >= 0 else 0.0
    if blocks == 0.0:
        return 0.0
    size = s.tensors.local[tensor] / max(t.tensors.itemsize[tensor], 1.0)
    tiles = padding(t, s, tensor, True) if tiled else 1.0
    return float(size * blocks * (tiles + min(tiles, in_lines(t, s, tensor))) / 2)
