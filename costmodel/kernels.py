"""The compiled evaluator: from a list of actions to time, memory and a key of the layout.

Every function here works on arrays made beforehand, allocates nothing and runs without the GIL.
An action (colour group, axis, resolution bits) shards the items of that group in every unit, first
come, first kept: an axis is used at most once in a unit, and an item takes it only where the
product of its axes divides its size. Bit k of the resolution chooses the side of set k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import entry, inner
from analysis.program import Floats, Ints
from costmodel.dependencies import ROOTS
from costmodel.flops import CONTRACTED, LEFT, RIGHT
from costmodel.kernelchanges import is_stale, mark_changes, overwrite, total
from costmodel.kerneljournal import ROOT, Bound, note
from costmodel.kernelmemory import peak_bytes
from costmodel.kernelmoves import edges, halos, partials, unfused_sums

ARITHMETIC, BYTES, ELEMENTS = (int(bound) for bound in Bound)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""With it and the two factors beside it the bits of a number are mixed (splitmix64)."""
BLOCK = 3072.0
"""Bytes along a side of the blocks in which a product of large operands is made."""


class Measured(NamedTuple):
    """One evaluated state: seconds, bytes and the key of its layout."""

    compute: float
    communication: float
    peak: float
    key: int


@inner
def reset(t: Any, s: Any) -> None:
    """Back to the state without actions: unsharded but for what is pinned."""
    overwrite(s.mask, t.item_fixed)
    overwrite(s.shards, t.item_shards)
    overwrite(s.used, t.unit_forbidden)


@inner
def shard(t: Any, s: Any, group: int, axis: int, bits: int) -> int:
    """Apply one action; returns how many items it sharded."""
    taken = 0
    bit = 1 << axis
    size = t.axis_size[axis]
    for k in range(t.touch_start[group], t.touch_start[group + 1]):
        unit = t.touch_unit[k]
        if s.used[unit] & bit:
            continue
        for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
            if t.item_group[i] != group:
                continue
            if t.item_bit[i] >= 0 and ((bits >> t.item_bit[i]) & 1) != t.item_side[i]:
                continue
            if t.item_size[i] % (s.shards[i] * size) != 0:
                continue
            s.mask[i] |= bit
            s.shards[i] *= size
            s.used[unit] |= bit
            taken += 1
            break
    return taken


@inner
def choose(t: Any, s: Any, unit: int, axis: int, item: int) -> None:
    """Apply one place of a refinement: an axis on one item of a unit only, or on none (-1)."""
    bit = 1 << axis
    size = t.axis_size[axis]
    first, end = t.unit_start[unit], t.unit_start[unit + 1]
    for i in range(first, end):
        if s.mask[i] & bit and not t.item_fixed[i] & bit:
            s.mask[i] &= ~bit
            s.shards[i] //= size
            s.used[unit] &= ~bit
    if (
        item < 0
        or s.used[unit] & bit
        or t.item_size[first + item] % (s.shards[first + item] * size)
    ):
        return
    s.mask[first + item] |= bit
    s.shards[first + item] *= size
    s.used[unit] |= bit


@inner
def layout_key(s: Any) -> int:
    """A 64-bit key of the whole layout: equal for every order of actions that leads to it."""
    key = np.uint64(0)
    for i in range(len(s.mask)):
        if s.mask[i]:
            mixed = (np.uint64(i) << np.uint64(32) ^ np.uint64(s.mask[i])) + GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            key ^= mixed ^ (mixed >> np.uint64(31))
    return np.int64(key & np.uint64(0x7FFFFFFFFFFFFFFF))  # type: ignore[return-value]


@inner
def _tiled(size: float, tile: int) -> float:
    """A size rounded up to whole tiles, over the size."""
    return np.ceil(size / tile) * tile / size


@entry
def streamed(on_chip: float, size: float) -> float:
    """The part of a tensor that comes from memory and does not wait on the chip.

    All up to a quarter of the on-chip memory waits there, nothing from the whole of it on.
    """
    if on_chip == 0.0:
        return 1.0
    return min(max((size / on_chip - 0.25) / 0.75, 0.0), 1.0)


@inner
def _product(t: Any, s: Any, dot: int) -> tuple[float, float, bool]:
    """Padding of a product, bytes of its operands that are read again, and if its sums are partial.

    Whole tiles: what is contracted fills the columns of the unit, and so does one side of the
    result; the other side streams through it by rows. The better of the two ways round counts.
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
    return float(blocks * streamed(t.on_chip, min(one, two)))


@inner
def _operand(t: Any, s: Any, dot: int, side: int) -> float:
    """Bytes of an operand as a product reads it."""
    stored, read = s.local[t.dot_operand[dot, side, 0]], s.local[t.dot_operand[dot, side, 1]]
    return float(read * t.dot_width[dot, side, 1 if read > stored else 0])


@inner
def _compute(t: Any, s: Any) -> float:
    """Roofline of every kernel: arithmetic, bytes moved, or elements handled.

    Reductions beside a product run behind it, where its sums are to be added over devices first.
    """
    for root in range(len(t.root_weight)):
        if not is_stale(t, s, ROOTS, root):
            continue
        first_dot, last_dot = t.root_dot_start[root], t.root_dot_start[root + 1]
        first, last = t.root_tensor_start[root], t.root_tensor_start[root + 1]
        writes = first + t.root_writes[root]
        moved, elements, made = 0.0, 0.0, 0.0
        for k in range(first, last):
            tensor = t.root_tensor[k]
            size = s.local[tensor]
            handled = size / max(t.tensor_itemsize[tensor], 1.0)
            moved += size * streamed(t.on_chip, size)
            elements = max(elements, handled)
            if k < writes:
                made = max(made, handled)
        arithmetic, again, partial = 0.0, 0.0, False
        for k in range(first_dot, last_dot):
            shards = 1
            unit = t.dot_unit[k]
            for i in range(t.unit_start[unit], t.unit_start[unit + 1]):
                shards *= s.shards[i]
            padding, reread, summed = _product(t, s, k)
            arithmetic += t.dot_seconds[k] / shards * padding
            again += reread
            partial |= summed
        spent = moved / t.bandwidth
        handling = elements / t.element_rate
        if first_dot < last_dot:
            arithmetic += again / t.bandwidth
            spent *= t.feeding
            handling = made / t.element_rate * t.beside
        seconds = max(arithmetic, spent, handling)
        bound = ARITHMETIC if seconds == arithmetic else ELEMENTS
        bound = BYTES if seconds == spent else bound
        if partial:
            seconds += t.root_beside[root] * made / t.element_rate
        weight = t.root_weight[root]
        spent = weight * (seconds + t.overhead)
        note(s.journal, s.noted, ROOT, root, 0, bound, 0, weight, weight * moved, spent)
        s.root_seconds[root] = spent
    return total(s.root_seconds)


@inner
def price(t: Any, s: Any) -> tuple[float, float, float]:
    """Compute seconds, communication seconds and peak bytes of the layout in `s`.

    What the layout did not change since the last time is not priced again.
    """
    s.noted[0] = 0
    mark_changes(t, s)
    compute = _compute(t, s)
    communication = partials(t, s) + edges(t, s) + halos(t, s)
    return compute + unfused_sums(t, s), communication, peak_bytes(t, s)


@entry
def step_seconds(compute: float, communication: float, overlap: float) -> float:
    """Seconds of a step in which a part of the communication hides behind computation.

    Of what could run at once, the shorter of the two, the part `overlap` (0 to 1) does.
    """
    return compute + communication - overlap * min(compute, communication)


@entry
def evaluate(
    t: Any, s: Any, groups: Ints, axes: Ints, bits: Ints, count: int
) -> tuple[float, float, float, int]:
    """Price the state that `count` actions lead to; see `Measured` for what comes back.

    A negative group is a place of a refinement: -2 - unit, with the item in place of the bits.
    """
    reset(t, s)
    for k in range(count):
        if groups[k] >= 0:
            shard(t, s, groups[k], axes[k], bits[k])
        else:
            choose(t, s, -2 - groups[k], axes[k], bits[k])
    compute, communication, peak = price(t, s)
    return compute, communication, peak, layout_key(s)


@entry
def evaluate_many(
    t: Any, s: Any, starts: Ints, groups: Ints, axes: Ints, bits: Ints, costs: Floats, keys: Ints
) -> None:
    """Price states one after another: state n is the actions from `starts[n]` to the next.

    `costs` [states, 3] takes seconds of computation and communication and peak bytes.
    """
    for n in range(len(keys)):
        a, b = starts[n], starts[n + 1]
        compute, communication, peak, key = evaluate(t, s, groups[a:b], axes[a:b], bits[a:b], b - a)
        costs[n, 0] = compute
        costs[n, 1] = communication
        costs[n, 2] = peak
        keys[n] = key
