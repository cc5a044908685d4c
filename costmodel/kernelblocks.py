"""Kernels for products whose partial sums are scattered block by block while they multiply."""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner
from costmodel.collectives import Kind
from costmodel.kernelchanges import streamed

REDUCE_SCATTER = int(Kind.REDUCE_SCATTER)
MANY = 8
"""From so many devices on a product sends its sums block by block in both directions."""
MANY_HIDDEN, FEW_HIDDEN = 0.34, 0.6
"""The least part of that sending that multiplying has to hide, for many devices and for fewer."""
BEGUN = 1.5
"""How often each element of the sums is handled."""


@inner
def axes_on(t: Any, s: Any, dim: int) -> int:
    """The axes on a dimension of a tensor, as bits."""
    item = t.dim_item[dim]
    return int(s.mask[item]) if item >= 0 else 0


@inner
def _multiplying(t: Any, s: Any, row: int) -> float:
    """Seconds of arithmetic of the product of a row of partials on one device."""
    seconds, unit = t.part_seconds[row], t.part_unit[row]
    for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
        seconds /= s.shards[i]
    return float(seconds)


@inner
def _taking(t: Any, s: Any, row: int, axes: int) -> tuple[int, bool]:
    """Which dimensions of a product's result take axes, as bits, and if one had others before."""
    k, dims, grows = t.part_result_start[row], 0, False
    a, b = t.tensor_start[t.part_computed[k]], t.tensor_start[t.part_defined[k]]
    for d in range(t.tensor_start[t.part_computed[k] + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if want & ~have & axes:
            dims |= 1 << d
            grows |= (have & want) > 0
    return dims, grows


@inner
def in_blocks(t: Any, s: Any, row: int, axes: int, size: float) -> bool:
    """Whether the sums of a row of partials are scattered block by block beside their product.

    Few devices have nothing to gain from it, nor has what takes much longer to send than to
    multiply. Along a dimension that is sharded already sums are scattered in one piece.
    """
    n = t.axes_shards[axes]
    if row < 0 or t.windowed == 0 or n < t.windowed or not t.part_product[row]:
        return False
    if _taking(t, s, row, axes)[1]:
        return False
    send = t.axes_alpha[REDUCE_SCATTER, axes, 0] + t.axes_beta[REDUCE_SCATTER, axes, 0] * size
    return bool(_multiplying(t, s, row) >= (FEW_HIDDEN if n < MANY else MANY_HIDDEN) * send)


@inner
def block_by_block(t: Any, s: Any, row: int, axes: int) -> tuple[float, float]:
    """Seconds that a product takes longer in blocks than in one piece, and bytes that it moves.

    Two blocks are multiplied at a time and added to what has come of them so far, which for one of
    them begins there: three kernels for two blocks, over all sums and a half.
    """
    sums = s.local[t.part_computed[t.part_result_start[row]]]
    handled = sums / max(t.tensor_itemsize[t.part_computed[t.part_result_start[row]]], 1.0)
    moved = sums * streamed(t.on_chip, sums)
    spent = BEGUN * (handled / t.element_rate + moved / t.bandwidth)
    spent += BEGUN * t.axes_shards[axes] * t.overhead
    feeding, fed = _feeding(t, s, row, axes)
    return spent + feeding, 2.0 * BEGUN * moved + fed


@inner
def _feeding(t: Any, s: Any, row: int, axes: int) -> tuple[float, float]:
    """The part of it for the operands.

    Where a block needs a part of an operand, that is in memory: a kernel of its own makes it, or
    cuts it from a stack. Arithmetic is always done before. An operand that all blocks need whole is
    read for every two of them.
    """
    taking, _ = _taking(t, s, row, axes)
    pairs, spent, moved, once, again = t.axes_shards[axes] / 2.0, 0.0, 0.0, 0.0, 0.0
    for side in range(2):
        size = s.local[t.block_operand[row, side]]
        parted = t.block_dims[row, side] & taking != 0
        before = t.block_made[row, side] + (t.block_cut[row, side] if parted else 0.0)
        copied = 2.0 * size * streamed(t.on_chip, size)
        handled = size / max(t.tensor_itemsize[t.block_operand[row, side]], 1.0)
        making = max(handled / t.element_rate, copied / t.bandwidth)
        spent += before * (making + t.overhead)
        moved += before * copied
        away = streamed(t.on_chip, s.local[t.block_whole[row, side]])
        once += size * away
        read = size * (before * streamed(t.on_chip, size) + (1.0 - before) * away)
        again += read if parted else read * pairs
    multiply, reading = _multiplying(t, s, row), t.feeding / t.bandwidth
    spent += max(max(multiply, again * reading) - max(multiply, once * reading), 0.0)
    return spent, moved + max(again - once, 0.0)
