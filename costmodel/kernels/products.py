"""Kernels for products: how they fill the matrix unit, and how long they wait for operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.convolution import (
    GROUP,
    WIDEST,
    grouped_padding,
    in_columns,
    more_pixels,
    packed,
    tiled,
)
from toast.costmodel.kernels.incremental import has_one, side, streamed
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT, WORD

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

NO_SHAPE = (0.0, 0.0)
"""Of what is no product of matrices."""


@inner
def product_tiling(t: Tables, s: Scratch, dot: int) -> tuple[float, tuple[float, float], bool]:
    """Padding of a product, rows and columns of its result, and if its sums are partial.

    Whole tiles: what is contracted fills the columns of the unit, and so does one side of the
    result; the other side streams through it by rows, of which few take the time of `least_rows`.
    The better of the two ways round counts. Of a convolution pixels stream through, and pixels of
    its window are contracted with the channels; or its images fill columns, if they do so better.
    """
    first, last = t.fusions.side_start[dot], t.fusions.side_start[dot + 1]
    if first == last:
        grouped = t.fusions.dot_window[dot, GROUP] > 1
        return (grouped_padding(t, s, dot, 1.0) if grouped else 1.0), NO_SHAPE, False
    start = t.units.start[t.fusions.dot_unit[dot]]
    left, right, contracted, batch = 1.0, 1.0, 1.0, 1.0
    partial = False
    sizes = t.fusions.side_whole if made_whole(t, s, dot) else t.fusions.side_size
    for k in range(first, last):
        shards = s.units.shards[start + k - first]
        size = np.ceil(sizes[k] / shards)
        if t.fusions.side_of[k] == LEFT:
            left *= size
        elif t.fusions.side_of[k] == RIGHT:
            right *= size
        elif t.fusions.side_of[k] == CONTRACTED:
            contracted *= size
            partial |= shards > 1
        else:
            batch *= size
    rows, columns = t.chip.tile_rows, t.chip.tile_columns
    one = tiled(left, rows) * tiled(right, columns)
    other = tiled(left, columns) * tiled(right, rows)
    if t.fusions.dot_window[dot, GROUP] > 0:
        return grouped_padding(t, s, dot, batch) * more_pixels(t, s, dot), NO_SHAPE, False
    if t.fusions.dot_window[dot, WIDEST] > 0:
        pixels = packed(t, dot, contracted)
        if pixels:
            one = min(one, in_columns(t, s, dot) * tiled(right, rows))
        padding = tiled(contracted * pixels, columns) * one if pixels else min(one, other)
        return padding * more_pixels(t, s, dot), NO_SHAPE, False
    one *= max(t.chip.least_rows / max(left * tiled(left, rows), rows), 1.0)
    other *= max(t.chip.least_rows / max(right * tiled(right, rows), rows), 1.0)
    padding = tiled(contracted, columns) * min(one, other)
    return padding, (left, right), partial


@inner
def made_whole(t: Tables, s: Scratch, dot: int) -> bool:
    """Whether a product of which a slice is read is made whole: of a single example, as of a row.

    XLA drops dimensions of one element from a product, and does not look through that.
    """
    return bool(t.fusions.dot_part[dot] < 1.0 and has_one(t, s, t.fusions.dot_sums[dot]))


@inner
def reducing(t: Tables, s: Scratch, row: int, dot: int) -> float:
    """Seconds on the vector unit of a batch of products of one row or column; 0.0 for all others.

    The compiler multiplies what the row meets and adds it up. Without a batch it does so too, but
    in whole programs that takes no longer than the model says of the matrix unit.
    """
    first, last = t.fusions.side_start[dot], t.fusions.side_start[dot + 1]
    if first == last or t.chip.reducing == 0.0 or t.fusions.dot_window[dot, WIDEST] > 0:
        return 0.0
    start = t.units.start[t.fusions.dot_unit[dot]]
    left, right, others, batch = 1.0, 1.0, 1.0, 1.0
    sizes = t.fusions.side_whole if made_whole(t, s, dot) else t.fusions.side_size
    for k in range(first, last):
        size = np.ceil(sizes[k] / s.units.shards[start + k - first])
        batch *= size if t.fusions.side_of[k] == BATCH else 1.0
        if t.fusions.side_of[k] == LEFT:
            left *= size
        elif t.fusions.side_of[k] == RIGHT:
            right *= size
        else:
            others *= size
    if min(left, right) > 1.0 or batch == 1.0:
        return 0.0
    larger = int(_operand(t, s, dot, 1) > _operand(t, s, dot, 0))
    filled = _filled(t, s, row, t.fusions.dot_operand[dot, larger, 1])
    return others * left * right * filled * t.chip.reducing


@inner
def _filled(t: Tables, s: Scratch, row: int, tensor: int) -> float:
    """How many times its elements the tiles of a tensor have, if it is in memory in whole columns.

    The rows of a tile are the dimension before it, of more than one: a cache of few heads between
    the positions and the features of a head leaves most of them empty.
    """
    last = t.tensors.start[tensor + 1] - t.tensors.start[tensor] - 1
    first, end = t.fusions.tensor_start[row], t.fusions.tensor_start[row + 1]
    if tensor not in t.fusions.tensor[first:end] or side(t, s, tensor, last) % t.chip.tile_columns:
        return 1.0
    rows = 1
    while rows == 1 and last > 0:
        last -= 1
        rows = side(t, s, tensor, last)
    return tiled(float(rows), t.chip.tile_rows) if rows > 1 else 1.0


@inner
def waiting(
    t: Tables,
    s: Scratch,
    row: int,
    dot: int,
    shape: tuple[float, float],
    seconds: float,
    summed: bool,
) -> float:
    """Seconds that a product waits for its operands beside those of its arithmetic.

    Its result, of rows and columns (`shape`), is made block by block, and each block reads a strip
    of both operands, a word at a time. What the fusion reads and writes of the size of the result
    shares the room of a block, unless it is `summed` over devices before. A product does not wait
    where an operand stays on the chip. The smaller one does so the less, the more of the chip it
    takes.
    """
    if t.chip.block_elements == 0.0:
        return 0.0
    one, two = max(_operand(t, s, dot, 0), 1.0), max(_operand(t, s, dot, 1), 1.0)
    made = max(float(s.tensors.stored[t.fusions.dot_sums[dot]]), 1.0)
    beside = made if summed else max(_beside(t, s, row, dot, one + two), made)
    room, (tall, right) = t.chip.block_elements * made / beside, shape
    wide = min(max(np.sqrt(room * one * right / (two * tall)), room / tall), right)
    rows = min(room / wide, tall)
    read = one * np.ceil(right / wide) + two * np.ceil(tall / rows) + beside
    late = read / WORD / t.chip.element_rate - seconds
    return float(max(late, 0.0) * min(min(one, two) / t.chip.on_chip, 1.0))


@inner
def _beside(t: Tables, s: Scratch, row: int, dot: int, operands: float) -> float:
    """Bytes of what a fusion reads and writes of the size of a product's result."""
    found = 0.0
    for k in range(t.fusions.tensor_start[row], t.fusions.tensor_start[row + 1]):
        found += s.tensors.stored[t.fusions.tensor[k]]
    return min(found - operands, _alike(t, s, row, dot))


@inner
def updating(t: Tables, s: Scratch, row: int, moved: float, partial: bool) -> float:
    """Seconds of what a fusion computes element by element of what its product makes.

    It does so as it ends each block. A sum over devices comes before, and then that is a pass of
    its own over the bytes `moved`.
    """
    handled = 0.0
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        made = t.fusions.dot_sums[k]
        size = _alike(t, s, row, k) + (s.tensors.stored[made] if partial else 0.0)
        handled += size / max(t.tensors.itemsize[made], 1.0)
    seconds = handled * t.chip.each_element
    return max(seconds, moved / t.chip.bandwidth) + t.chip.overhead if partial else seconds


@inner
def behind(t: Tables, s: Scratch, row: int, moved: float) -> float:
    """Bytes that a fusion moves beside the operands of its products and their sums."""
    for k in range(t.fusions.dot_start[row], t.fusions.dot_start[row + 1]):
        for operand in range(2):
            size = _operand(t, s, k, operand)
            moved -= size * streamed(t.chip.on_chip, t.chip.streamed_from, size)
        size = s.tensors.stored[t.fusions.dot_sums[k]]
        moved -= size * streamed(t.chip.on_chip, t.chip.streamed_from, size)
    return max(moved, 0.0)


@inner
def _alike(t: Tables, s: Scratch, row: int, dot: int) -> float:
    """Bytes of what a fusion reads and writes of the size of what a product of it makes.

    The part of them that waits on the chip, all together, does not count.
    """
    found, made = 0.0, t.fusions.dot_sums[dot]
    for k in range(t.fusions.tensor_start[row], t.fusions.tensor_start[row + 1]):
        tensor = t.fusions.tensor[k]
        if s.tensors.local[tensor] == s.tensors.local[made]:
            found += s.tensors.stored[tensor]
    return found * streamed(t.chip.on_chip, t.chip.streamed_from, found)


@inner
def _operand(t: Tables, s: Scratch, dot: int, number: int) -> float:
    """Bytes of an operand as a product reads it."""
    stored, read = (
        s.tensors.local[t.fusions.dot_operand[dot, number, 0]],
        s.tensors.local[t.fusions.dot_operand[dot, number, 1]],
    )
    return float(read * t.fusions.dot_width[dot, number, 1 if read > stored else 0])
