"""Kernels for what a TPU's convolutions take beside their arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import (
    channels_of,
    groups_apart,
    in_blocks,
    in_lines,
    padding,
    side,
)
from toast.costmodel.program.contractions import NARROW, WORD

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

ROW, WIDEST, APART, SPREAD, SPLITS, GROUP, MADE, WHOLE, REVERSES = range(9)
"""The columns of `dot_window`."""
ENTERS, LEAVES, HANDED, GIVEN = range(4)
"""The columns of `dot_passage`."""


@inner
def tiled(size: float, tile: int) -> float:
    """A size rounded up to whole tiles, over the size; nothing takes a tile too."""
    size = max(size, 1.0)
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
        return tiled(batch, columns) * columns
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
def packed(t: Tables, dot: int, channels: float) -> float:
    """Pixels of a window that a convolution contracts in one go with so many channels.

    A row, and of fewer channels than a tile has rows all of them.
    """
    window = t.fusions.dot_window[dot]
    return float(window[WHOLE] if channels < t.chip.tile_rows else window[ROW])


@inner
def in_columns(t: Tables, s: Scratch, dot: int) -> float:
    """How the images that a convolution makes fill columns of tiles, over their number."""
    made = t.fusions.dot_sums[dot]
    if t.tensors.image[made, 0] < 0:
        return np.inf
    blocks = in_blocks(t, s, t.fusions.dot_operand[dot, 0, 1]) > 0.0
    batch = side(t, s, made, t.tensors.image[made, 0]) * (t.chip.tile_rows if blocks else 1)
    return tiled(float(batch), t.chip.tile_columns)


@inner
def turned(t: Tables, s: Scratch, dot: int) -> float:
    """Elements that a convolution of few channels turns, with those that fill up their tiles.

    For each pixel that it makes those of a row of its window, which lie along images, are brought
    along channels.
    """
    window, image = t.fusions.dot_window[dot], t.fusions.dot_operand[dot, 0, 1]
    made = t.fusions.dot_sums[dot]
    if window[WHOLE] <= 1 or t.tensors.image[image, 0] < 0 or t.tensors.image[made, 0] < 0:
        return 0.0
    channels = channels_of(t, s, image)
    if channels >= t.chip.tile_rows:
        return 0.0
    images = float(side(t, s, made, t.tensors.image[made, 0]))
    images *= t.chip.tile_rows if in_blocks(t, s, image) > 0.0 else 1
    size = s.tensors.local[made] / max(t.tensors.itemsize[made], 1.0)
    pixels, taken = size / channels_of(t, s, made), float(window[ROW] * channels)
    filled = tiled(taken, 2 * t.chip.tile_rows) * tiled(images, t.chip.tile_columns)
    return float(pixels * taken * filled)


@inner
def into_tiles(t: Tables, s: Scratch, dot: int) -> float:
    """Elements of an image of few channels that the program is given, and copies into its tiles.

    Not where it lies in blocks, which are brought there, nor where images fill columns.
    """
    image = t.fusions.dot_operand[dot, 0, 1]
    if not t.fusions.dot_passage[dot, GIVEN] or t.tensors.image[image, 0] < 0:
        return 0.0
    batch, channels = side(t, s, image, t.tensors.image[image, 0]), channels_of(t, s, image)
    rows = t.chip.tile_rows
    if channels >= rows or batch >= t.chip.tile_columns or in_blocks(t, s, image) > 0.0:
        return 0.0
    size = s.tensors.local[image] / max(t.tensors.itemsize[image], 1.0)
    return float(size * tiled(batch, 2 * rows) * tiled(channels, rows))


@inner
def reversing(t: Tables, s: Scratch, dot: int) -> float:
    """Seconds to reverse the second image that the gradient of a filter reads, word by word.

    What is computed for it alone is stored as the matrix unit takes it.
    """
    if not t.fusions.dot_window[dot, REVERSES]:
        return 0.0
    image, width = t.fusions.dot_operand[dot, 1, 1], t.fusions.dot_width[dot, 1, 0]
    if t.fusions.dot_computed[dot, 1]:
        width = NARROW / t.tensors.itemsize[image]
    return float(s.tensors.stored[image] * width / WORD / t.chip.blocking)


@inner
def more_pixels(t: Tables, s: Scratch, dot: int) -> float:
    """How many times as many pixels are convolved as there are.

    Blocks overlap. Zeros between pixels are left out, but the unit takes other weights for each
    pixel of a window then, and as long for few images as for `least_rows`.
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
    return max(blocks, 1.0) * tiled(float(images), t.chip.least_rows) / window[SPREAD]


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
