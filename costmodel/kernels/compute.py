"""Kernels for computation: the roofline of everything that is launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.dependencies import ROOTS
from toast.costmodel.kernels.convolution import ROW, WIDEST, blocking, more_pixels
from toast.costmodel.kernels.incremental import is_stale, streamed, total
from toast.costmodel.kernels.journal import ROOT, Bound, note
from toast.costmodel.program.contractions import CONTRACTED, LEFT, RIGHT

ARITHMETIC, BYTES, ELEMENTS = (int(bound) for bound in Bound)
BLOCK = 3072.0
"""Bytes along a side of the blocks in which a product of large operands is made."""
STAYS = 0.75
"""The part of the on-chip memory that an operand may fill and stay there until it is read again."""


@inner
def _tiled(size: float, tile: int) -> float:
    """A size rounded up to whole tiles, over the size."""
    return np.ceil(size / tile) * tile / size


@inner
def _product(t: Any, s: Any, dot: int) -> tuple[float, float, bool]:
    """Padding of a product, bytes of its operands that are read again, and if its sums are partial.

    Whole tiles: what is contracted fills the columns of the unit, and so does one side of the
    result; the other side streams through it by rows. The better of the two ways round counts. Of
    a convolution pixels stream through, and a row of its window is contracted with the channels.
    """
    first, last = t.side_start[dot], t.side_start[dot + 1]
    if first == last:
        return 1.0, 0.0, False
    start = t.unit_start[t.dot_unit[dot]]
    left, right, contracted, batch = 1.0, 1.0, 1.0, 1.0
    partial = False
    for k in range(first, last):
        shards = s.shards[start + k - first]
        size = np.ceil(t.side_size[k] / shards)
        if t.side_of[k] == LEFT:
            left *= size
        elif t.side_of[k] == RIGHT:
            right *= size
        elif t.side_of[k] == CONTRACTED:
            contracted *= size
            partial |= shards > 1
        else:
            batch *= size
    rows, columns = t.tile_rows, t.tile_columns
    one = _tiled(left, rows) * _tiled(right, columns)
    other = _tiled(left, columns) * _tiled(right, rows)
    if t.dot_window[dot, WIDEST] > 0:
        row = t.dot_window[dot, ROW]
        padding = _tiled(contracted * row, columns) * one if row else min(one, other)
        return padding * more_pixels(t, s, dot), 0.0, False
    padding = _tiled(contracted, columns) * min(one, other)
    return padding, _again(t, s, dot, left, right, batch * contracted), partial


@inner
def _again(t: Any, s: Any, dot: int, left: float, right: float, depth: float) -> float:
    """Bytes of the operands of a product that are read from memory more than once.

    The result is made block by block, each from a strip of both operands. One that waits on the
    chip is read once, and then so is the other. `depth` is what the operands have beside the rows
    and columns of the result.
    """
    if t.on_chip == 0.0:
        return 0.0
    one, two = _operand(t, s, dot, 0), _operand(t, s, dot, 1)
    block = BLOCK / max(min(one / left, two / right) / depth, 1.0)
    blocks = one * (np.ceil(right / block) - 1.0) + two * (np.ceil(left / block) - 1.0)
    part = (min(one, two) / t.on_chip - STAYS) / (1.0 - STAYS)
    return float(blocks * min(max(part, 0.0), 1.0))


@inner
def _operand(t: Any, s: Any, dot: int, side: int) -> float:
    """Bytes of an operand as a product reads it."""
    stored, read = s.local[t.dot_operand[dot, side, 0]], s.local[t.dot_operand[dot, side, 1]]
    return float(read * t.dot_width[dot, side, 1 if read > stored else 0])


@inner
def _copying(t: Any, s: Any, root: int) -> float:
    """Seconds to copy what a kernel needs in another memory layout, and to bring back the rest."""
    spent = 0.0
    for k in range(t.root_copied_start[root], t.root_copied_start[root + 1]):
        tensor = t.root_copied[k]
        size = s.local[tensor]
        moved = 2.0 * size * streamed(t.on_chip, size) / (t.bandwidth * t.turning)
        spent += max(moved, _elements(t, s, tensor) / t.element_rate) + t.overhead
    return spent


@inner
def _spreading(t: Any, s: Any, root: int) -> float:
    """Seconds to update parts of buffers along dimensions that are split over devices.

    Only one of these has the place: all bring the buffer to a memory layout in which the place is
    easy to cut out, and keep there what they had.
    """
    handled = 0.0
    for k in range(t.root_spread_start[root], t.root_spread_start[root + 1]):
        if s.shards[t.spread_item[k]] > 1:
            handled += _elements(t, s, t.spread_tensor[k])
    return handled / t.element_rate


@inner
def _blocking(t: Any, s: Any, root: int) -> float:
    """Seconds to bring what a kernel convolves into blocks of pixels."""
    spent = 0.0
    for k in range(t.root_dot_start[root], t.root_dot_start[root + 1]):
        spent += blocking(t, s, k)
    return spent


@inner
def _beside(t: Any, s: Any, root: int) -> float:
    """Seconds of the reductions of what a kernel's product makes, run behind it.

    Where others want the whole of what they reduce, they reduce that.
    """
    handled = 0.0
    for reduction in range(t.root_beside_start[root], t.root_beside_start[root + 1]):
        most = 0.0
        for k in range(t.beside_start[reduction], t.beside_start[reduction + 1]):
            most = max(most, _elements(t, s, t.beside_tensor[k]))
        handled += most
    return handled / t.element_rate


@inner
def _arithmetic(t: Any, s: Any, root: int) -> tuple[float, float, float, bool]:
    """Of a kernel's products: seconds, bytes of partial sums, elements computed for them.

    The last tells whether there are partial sums.
    """
    seconds, again, sums, fed, partial = 0.0, 0.0, 0.0, 0.0, False
    for k in range(t.root_dot_start[root], t.root_dot_start[root + 1]):
        shards = 1
        unit = t.dot_unit[k]
        for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
            shards *= s.shards[i]
        padding, reread, summed = _product(t, s, k)
        seconds += t.dot_seconds[k] / shards * padding
        again += reread
        if summed:
            partial = True
            size = s.local[t.dot_sums[k]]
            sums += size * streamed(t.on_chip, size)
        for side in range(2):
            if t.dot_computed[k, side]:
                fed = max(fed, _elements(t, s, t.dot_operand[k, side, 1]))
    return seconds + again / t.bandwidth, sums, fed, partial


@inner
def _elements(t: Any, s: Any, tensor: int) -> float:
    """Elements of a tensor on one device."""
    return float(s.local[tensor] / max(t.tensor_itemsize[tensor], 1.0))


@inner
def _traffic(t: Any, s: Any, root: int) -> tuple[float, float, float, float]:
    """Bytes moved and of these written, most elements of a tensor and of one that is written."""
    first = t.root_tensor_start[root]
    moved, wrote, elements, made = 0.0, 0.0, 0.0, 0.0
    for k in range(first, t.root_tensor_start[root + 1]):
        tensor = t.root_tensor[k]
        size = s.local[tensor]
        handled = _elements(t, s, tensor)
        moved += size * streamed(t.on_chip, s.local[t.root_whole[k]])
        elements = max(elements, handled)
        if k < first + t.root_writes[root]:
            made = max(made, handled)
            wrote = moved
    return moved, wrote, elements, made


@inner
def roots(t: Any, s: Any) -> float:
    """Roofline of every kernel: arithmetic, bytes moved, or elements handled.

    A product writes its partial sums in place of what it would make of them, and reductions beside
    it run behind it.
    """
    for root in range(len(t.root_weight)):
        if not is_stale(t, s, ROOTS, root):
            continue
        arithmetic, sums, fed, partial = _arithmetic(t, s, root)
        moved, wrote, elements, made = _traffic(t, s, root)
        moved += max(sums - wrote, 0.0)
        spent = moved / t.bandwidth
        handling = elements / t.element_rate
        if t.root_dot_start[root] < t.root_dot_start[root + 1]:
            spent *= t.feeding
            handling = max(made, fed) / t.element_rate * t.beside
        seconds = max(arithmetic, spent, handling)
        bound = ARITHMETIC if seconds == arithmetic else ELEMENTS
        bound = BYTES if seconds == spent else bound
        if partial:
            seconds += _beside(t, s, root)
        weight = t.root_weight[root]
        seconds += _copying(t, s, root) + _spreading(t, s, root) + _blocking(t, s, root)
        spent = weight * (seconds + t.overhead)
        note(s.journal, s.noted, ROOT, root, 0, bound, 0, weight, weight * moved, spent)
        s.root_seconds[root] = spent
    return total(s.root_seconds)
