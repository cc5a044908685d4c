"""Kernels for the pieces in which a compiler scatters the sums of a matrix over devices.

A TPU sends a matrix piece by piece, and the pieces are equal: they divide the dimension that is not
scattered, in whole tiles. Of 50,265 rows (6,284 rows of tiles, 4 x 1,571) none is large enough, and
the sum stays whole; 50,257 rows are 61 pieces of 103. An image is cut where its tiles let it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import axes_on, lies_by_columns, side
from toast.costmodel.passes.matrix_layouts import MATRIX

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

WORD = 4
"""Bytes of a lane."""
SMALLEST = 8
"""A piece takes at least this part of what it may take."""


@inner
def has_pieces(
    t: Tables, s: Scratch, source: int, scattered: int, target: int, by_row: bool
) -> bool:
    """Whether partial sums can be cut into the pieces in which they are scattered.

    In 16 bits each device's part of the last dimension fills pairs of rows of lanes, or no row. It
    fills rows in any case where the sums lie `by_row`, as those of a scatter do, unless narrow rows
    fill tiles better by columns: then each device's part of these fills columns. Of what is neither
    matrix nor image nothing else is known.
    """
    width = t.tensors.itemsize[source]
    if t.chip.scattered_piece == 0.0 or width not in (2.0, 4.0):
        return True
    if t.tensors.image[source, 0] >= 0:
        return _has_tiles(t, s, source, scattered, target, int(width))
    return _has_equal_pieces(t, s, source, scattered, target, width, by_row)


@inner
def _has_tiles(t: Tables, s: Scratch, source: int, scattered: int, target: int, width: int) -> bool:
    """Whether an image whose channels fill lanes is cut between its tiles.

    Its batch lies in the rows of a tile, which 16 bits share in pairs, and each device's part of
    the channels has to fill pairs of rows of lanes in 16 bits too.
    """
    image, b = t.tensors.image[source], t.tensors.start[target]
    lanes, columns = 1, t.chip.tile_columns
    for dim in range(image[2], image[3]):
        lanes *= side(t, s, source, dim)
    if lanes < columns:
        return True
    for dim in range(image[2], image[3]):
        if scattered & axes_on(t, s, b + dim):
            part = lanes // t.mesh.shards[scattered]
            return bool(part * width % (columns * WORD) == 0)
    return bool(width == WORD or not scattered & axes_on(t, s, b + image[0]))


@inner
def _has_equal_pieces(
    t: Tables,
    s: Scratch,
    source: int,
    scattered: int,
    target: int,
    width: float,
    by_row: bool,
) -> bool:
    """Whether what is no image can be cut so; of what is no matrix hardly anything is known.

    Each device's part of the rows fills more than half of those of a tile.
    """
    wide, other, dims, last = _sides(t, s, source, scattered, target)
    rows, columns = t.chip.tile_rows, t.chip.tile_columns
    lanes = wide % columns == 0
    uneven = last and (lanes or by_row) and wide * width % (columns * WORD) != 0.0
    if wide == 0 or (dims != MATRIX and not uneven):
        return True
    if uneven or (not last and 2 * wide <= rows):
        return False
    limit = t.chip.scattered_piece / (np.log2(t.mesh.shards[scattered]) + 1.0)
    if by_row and not lanes and lies_by_columns(t, s, source):
        return False
    if lanes:
        return _divides(limit, rows * wide * int(width), -(-other // rows))
    # The part of a device fills no lanes, so the other dimension does, two tiles at a time.
    return _divides(limit, 2 * rows * columns * WORD, -(-other // columns))


@inner
def _sides(
    t: Tables, s: Scratch, source: int, scattered: int, target: int
) -> tuple[int, int, int, bool]:
    """A device's part of the dimension that is scattered, and of another one.

    Also how many dimensions are not 1, and whether the one that is scattered is the last of these.
    """
    a, b = t.tensors.start[source], t.tensors.start[target]
    wide, other, dims, last = 0, 0, 0, False
    for d in range(t.tensors.start[source + 1] - a):
        if t.tensors.dim_size[a + d] == 1:
            continue
        dims += 1
        part = t.tensors.dim_size[a + d] // t.mesh.shards[axes_on(t, s, a + d)]
        last = bool(scattered & axes_on(t, s, b + d) != 0)
        if last:
            wide = part // t.mesh.shards[scattered]
        else:
            other = part
    return wide, other, dims, last


@inner
def _divides(limit: float, step: int, steps: int) -> bool:
    """Whether so many steps of so many bytes are one piece, or equal ones that are large enough."""
    most = int(limit // step)
    if most == 0 or steps <= most:
        return True
    for piece in range(most, int(np.ceil(limit / SMALLEST / step)) - 1, -1):
        if piece > 0 and steps % piece == 0:
            return True
    return False
