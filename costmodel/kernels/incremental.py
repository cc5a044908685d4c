"""What a new layout changes: the kernels price that again, and nothing else.

A scratch keeps what every row cost under the layout that it priced last. A row is a function of the
units that it is made of, so the rows of units whose layout is the same cost what they did. Totals
are added up anew in the order of the rows, and bytes are whole halves, whose sums are exact: a
state costs the same whatever was priced before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.costmodel.passes.matrix_layouts import MATRIX
from toast.costmodel.passes.space_to_batch import APART, LINE, NORMED
from toast.costmodel.program.contractions import WIDE

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables


@inner
def overwrite(numbers: Ints, others: Ints) -> None:
    """`numbers[:] = others`, for which Numba would allocate a copy in case the two overlap."""
    for k in range(len(numbers)):
        numbers[k] = others[k]


@inner
def total(seconds: Floats) -> float:
    """The sum of all rows, from the first to the last."""
    added = 0.0
    for row in range(len(seconds)):
        added += seconds[row]
    return added


@inner
def mark_changes(t: Tables, s: Scratch) -> None:
    """Find the units laid out otherwise than when `s` was priced last, and what depends on them.

    A journal tells of every row, so with one everything is priced again.
    """
    if len(s.journal.entries) > 0 or s.journal.noted[4] == 0:
        _forget(t, s)
        return
    s.changes.stale[:] = False
    for unit in range(len(t.units.start) - 1):
        changed = False
        for i in range(t.units.start[unit], t.units.start[unit + 1]):
            if s.units.mask[i] != s.changes.priced[i]:
                s.changes.priced[i] = s.units.mask[i]
                changed = True
        if changed:
            for k in range(t.dependents.tensor_start[unit], t.dependents.tensor_start[unit + 1]):
                _measure(t, s, t.dependents.tensor[k])
            for k in range(t.dependents.row_start[unit], t.dependents.row_start[unit + 1]):
                s.changes.stale[t.dependents.row[k]] = True


@inner
def _forget(t: Tables, s: Scratch) -> None:
    s.changes.stale[:] = True
    overwrite(s.changes.priced, s.units.mask)
    s.schedule.delta[:] = 0.0
    s.live_ranges.held[:] = 0.0
    s.copies.held[:] = 0.0
    s.copies.read[:] = 0.0
    s.sums.held[:] = 0.0
    s.sums.beside_held[:] = 0.0
    s.sums.summed_held[:] = 0.0
    s.sums.late_held[:] = 0.0
    s.journal.noted[4] = 1
    for tensor in range(len(t.tensors.itemsize)):
        _measure(t, s, tensor)


@inner
def _measure(t: Tables, s: Scratch, tensor: int) -> None:
    """The bytes of a tensor on one device."""
    size = t.tensors.itemsize[tensor]
    for d in range(t.tensors.start[tensor], t.tensors.start[tensor + 1]):
        item = t.tensors.dim_item[d]
        if item >= 0 and s.units.shards[item] > 1:
            n = s.units.shards[item]
            size *= (t.tensors.dim_size[d] + n - 1) // n
        else:
            size *= t.tensors.dim_size[d]
    s.tensors.local[tensor] = size
    tiled = t.chip.fills_tiles and size > 0.0
    s.tensors.given[tensor] = _as_given(t, s, tensor, size) if tiled else size
    s.tensors.stored[tensor] = s.tensors.given[tensor]
    if t.tensors.image[tensor, 0] >= 0 and size > 0.0:
        s.tensors.stored[tensor] = _in_tiles(t, s, tensor, size)
    elif tiled and t.tensors.matrix[tensor, 0] >= 0:
        s.tensors.stored[tensor] = _in_matrices(t, s, tensor, size)


@inner
def side(t: Tables, s: Scratch, tensor: int, dim: int) -> int:
    """A dimension of a tensor on one device."""
    d = t.tensors.start[tensor] + dim
    n = s.units.shards[t.tensors.dim_item[d]] if t.tensors.dim_item[d] >= 0 else 1
    return int((t.tensors.dim_size[d] + n - 1) // n)


@inner
def has_one(t: Tables, s: Scratch, tensor: int) -> bool:
    """Whether a dimension of a tensor has one element on a device."""
    for dim in range(t.tensors.start[tensor + 1] - t.tensors.start[tensor]):
        if side(t, s, tensor, dim) == 1:
            return True
    return False


@inner
def _up(number: int, part: int) -> int:
    """A number rounded up to whole parts."""
    return (number + part - 1) // part * part


@inner
def _rows(number: int, least: int, most: int) -> int:
    """A number rounded up to the rows of a tile, of which few take a lower one."""
    rows = least
    while rows < min(number, most):
        rows *= 2
    return _up(number, rows)


@inner
def _fewest_rows(t: Tables, itemsize: float) -> int:
    """The fewest rows of a tile of elements of so many bytes; a tile has no fewer."""
    return min(max(int(t.chip.column_bytes / itemsize), 1), t.chip.tile_rows)


@inner
def _as_given(t: Tables, s: Scratch, tensor: int, size: float) -> float:
    """The bytes of a value in tiles, of the two dimensions that fill them best."""
    dims = t.tensors.start[tensor + 1] - t.tensors.start[tensor]
    if dims < 2:
        return by_row(t, s, tensor, size)
    first, second = _best_columns(t, s, tensor, dims)
    fewest, least = _fewest_rows(t, t.tensors.itemsize[tensor]), np.inf
    for dim in range(dims):
        rows = side(t, s, tensor, dim)
        columns = side(t, s, tensor, second if dim == first else first)
        tall = _rows(rows, fewest, t.chip.tile_rows)
        part = tall * _up(columns, t.chip.tile_columns) / (rows * columns)
        least = min(least, part)
    return np.ceil(size * least)


@inner
def _in_matrices(t: Tables, s: Scratch, tensor: int, size: float) -> float:
    """The bytes of a batch of matrices in tiles, rows by columns or the other way round."""
    fewest = _fewest_rows(t, t.tensors.itemsize[tensor])
    rows, columns = t.chip.tile_rows, t.chip.tile_columns
    one = side(t, s, tensor, t.tensors.matrix[tensor, 0])
    other = side(t, s, tensor, t.tensors.matrix[tensor, 1])
    least = min(
        _rows(one, fewest, rows) * _up(other, columns),
        _rows(other, fewest, rows) * _up(one, columns),
    )
    return np.ceil(size * least / (one * other))


@inner
def _best_columns(t: Tables, s: Scratch, tensor: int, dims: int) -> tuple[int, int]:
    """The two of several dimensions that fill the columns of tiles best, the better one first."""
    first, second, best, next_best = 0, 1, np.inf, np.inf
    for dim in range(dims):
        columns = side(t, s, tensor, dim)
        part = _up(columns, t.chip.tile_columns) / columns
        if part < best:
            first, second, best, next_best = dim, first, part, best
        elif part < next_best:
            second, next_best = dim, part
    return first, second


@inner
def by_row(t: Tables, s: Scratch, tensor: int, size: float) -> float:
    """The bytes of a value in tiles of its last two dimensions.

    Where windows are of several dimensions, of the two of these that fill them best.
    """
    dims = t.tensors.start[tensor + 1] - t.tensors.start[tensor]
    if dims == 0:
        return np.ceil(size * t.chip.tile_columns)
    chosen, wide = _columns(t, s, tensor, dims)
    if dims == 1:
        return np.ceil(size * wide)
    fewest = _fewest_rows(t, t.tensors.itemsize[tensor])
    others, tall = t.tensors.columns[tensor] & ~(1 << chosen), np.inf
    if others == 0:
        others = 1 << (dims - 2 if chosen == dims - 1 else dims - 1)
    for dim in range(dims):
        if others >> dim & 1:
            rows = side(t, s, tensor, dim)
            tall = min(tall, _rows(rows, fewest, t.chip.tile_rows) / rows)
    return np.ceil(size * tall * wide)


@inner
def _columns(t: Tables, s: Scratch, tensor: int, dims: int) -> tuple[int, float]:
    """Of the dimensions that windows take whole the one that is padded least, and its padding."""
    chosen, least = dims - 1, np.inf
    for dim in range(dims):
        if t.tensors.columns[tensor] >> dim & 1:
            columns = side(t, s, tensor, dim)
            part = _up(columns, t.chip.tile_columns) / columns
            if part < least:
                chosen, least = dim, part
    return chosen, least


@inner
def in_rows(t: Tables, s: Scratch, tensor: int, table: bool) -> float:
    """The bytes of a value that lies row by row, as what is looked up or added up does.

    A table that would be more than half padding, and too much of it, lies as fills tiles best. So
    do a sum of rows, and what is looked up in such a table, or added to it. What has one column is
    a vector.
    """
    stored = float(s.tensors.stored[tensor])
    image = t.tensors.image[tensor, 0] >= 0
    if image or not t.chip.fills_tiles or s.tensors.local[tensor] == 0.0:
        return stored
    dims = t.tensors.start[tensor + 1] - t.tensors.start[tensor]
    if dims < 2 or side(t, s, tensor, _columns(t, s, tensor, dims)[0]) == 1:
        return stored
    own = tensor if table else t.tensors.table[tensor]
    return stored if own >= 0 and _is_too_padded(t, s, own) else _by_row(t, s, tensor)


@inner
def _by_row(t: Tables, s: Scratch, tensor: int) -> float:
    """The bytes of a tensor row by row; what has no elements takes none."""
    size = float(s.tensors.local[tensor])
    return float(by_row(t, s, tensor, size)) if size > 0.0 else 0.0


@inner
def lies_by_columns(t: Tables, s: Scratch, tensor: int) -> bool:
    """Whether a matrix fills tiles better by columns than by rows."""
    return bool(s.tensors.given[tensor] < _by_row(t, s, tensor))


@inner
def _is_too_padded(t: Tables, s: Scratch, tensor: int) -> bool:
    """Whether a table would be more than half padding row by row, and too much of it."""
    stored = float(s.tensors.stored[tensor])
    return bool(_by_row(t, s, tensor) - stored > max(stored, t.chip.most_padding))


@inner
def sums_inside(t: Tables, s: Scratch, tensor: int) -> bool:
    """Whether a sum of rows stays on the chip, and rows are made inside it; never for -1.

    It is a matrix on this device, and the unit that adds it up computes with 32 bits.
    """
    if tensor < 0:
        return False
    rows, columns, dims = 1, 1, 0
    for dim in range(t.tensors.start[tensor + 1] - t.tensors.start[tensor]):
        if side(t, s, tensor, dim) > 1:
            rows, columns, dims = rows * columns, side(t, s, tensor, dim), dims + 1
    taken = (rows + t.chip.summed_rows) * _up(columns, t.chip.tile_columns) * WIDE
    return bool(dims == MATRIX and taken <= t.chip.summed_bytes)


@inner
def _in_tiles(t: Tables, s: Scratch, tensor: int, size: float) -> float:
    """The bytes of an image in tiles, of channels by batch or of batch by channels.

    Fewer than fill the rows of a tile are convolved in as many blocks of pixels as a tile has rows,
    each with some of its neighbour's. Then they are part of the batch, and fill the rows.
    """
    blocks = in_blocks(t, s, tensor)
    if blocks > 0.0:
        size *= blocks
    return np.ceil(size * padding(t, s, tensor, blocks > 0.0))


@inner
def in_blocks(t: Tables, s: Scratch, tensor: int) -> float:
    """How many times its pixels an image has in blocks; 0 where it is not convolved so."""
    image = t.tensors.image[tensor]
    rows, pixels, halo = t.chip.tile_rows, side(t, s, tensor, image[1]), image[4]
    block = (pixels + halo + rows - 1) // rows
    if side(t, s, tensor, image[0]) < rows and 0 < halo <= block and t.chip.in_blocks:
        return float(rows * block / pixels)
    return 0.0


@inner
def padding(t: Tables, s: Scratch, tensor: int, blocks: bool) -> float:
    """How many times its own room an image takes in tiles, in blocks of pixels or not.

    One in blocks that is normalised by example has a line of its pixels for columns, where that
    fills them better.
    """
    image = t.tensors.image[tensor]
    rows, columns = t.chip.tile_rows, t.chip.tile_columns
    batch = side(t, s, tensor, image[0]) * (rows if blocks else 1)
    channels, fewest = channels_of(t, s, tensor), _fewest_rows(t, t.tensors.itemsize[tensor])
    tiled = min(
        _rows(batch, fewest, rows) * _up(channels, columns),
        _rows(channels, fewest, rows) * _up(batch, columns),
    )
    least = tiled / (batch * channels)
    if blocks and image[NORMED] > 0:
        least = min(least, in_lines(t, s, tensor))
    return float(least)


@inner
def in_lines(t: Tables, s: Scratch, tensor: int) -> float:
    """How many times its own room an image takes with a line of its pixels for columns."""
    line = t.tensors.image[tensor, LINE]
    if line < 0:
        return np.inf
    pixels, channels = side(t, s, tensor, line), channels_of(t, s, tensor)
    tall = _rows(channels, _fewest_rows(t, t.tensors.itemsize[tensor]), t.chip.tile_rows)
    return float(tall * _up(pixels, t.chip.tile_columns) / (channels * pixels))


@inner
def channels_of(t: Tables, s: Scratch, tensor: int) -> int:
    """The channels of an image on one device."""
    channels = 1
    for dim in range(t.tensors.image[tensor, 2], t.tensors.image[tensor, 3]):
        channels *= side(t, s, tensor, dim)
    return channels


@inner
def groups_apart(t: Tables, s: Scratch, tensor: int) -> tuple[float, bool]:
    """How many times its own room an image takes with its groups of channels apart, or 0.0.

    The second tells whether the columns of its tiles are images, and not the channels of a group.
    Groups that fill columns by themselves lie so anyway.
    """
    image = t.tensors.image[tensor]
    rows, columns, group = t.chip.tile_rows, t.chip.tile_columns, image[APART]
    if image[0] < 0 or group == 0 or group % columns == 0:
        return 0.0, False
    blocks = in_blocks(t, s, tensor) > 0.0
    batch = side(t, s, tensor, image[0]) * (rows if blocks else 1)
    fewest = _fewest_rows(t, t.tensors.itemsize[tensor])
    by_channel = _rows(batch, fewest, rows) * _up(group, columns)
    by_image = _rows(group, fewest, rows) * _up(batch, columns)
    room = min(by_channel, by_image) / (batch * group)
    return float(room / padding(t, s, tensor, blocks)), bool(by_image < by_channel)


@entry
def streamed(on_chip: float, free: float, size: float) -> float:
    """The part of a tensor that comes from main memory, since it does not wait on the chip.

    A tensor of up to the part `free` of the on-chip memory waits there whole; one that fills all of
    that memory does not wait there at all.
    """
    if on_chip == 0.0:
        return 1.0
    return min(max((size / on_chip - free) / (1.0 - free), 0.0), 1.0)


@inner
def axes_on(t: Tables, s: Scratch, dim: int) -> int:
    """The axes on a dimension of a tensor, as bits."""
    item = t.tensors.dim_item[dim]
    return int(s.units.mask[item]) if item >= 0 else 0
