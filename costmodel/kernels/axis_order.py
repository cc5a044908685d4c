"""Kernels for the order of the axes on a dimension.

A collective takes or leaves the last axes of a dimension. Where some moves of a colour want one
axis last and others another, one of them reshuffles its tensor first, by permutes: those that cost
less. All dimensions of a colour have its axes in one order, which `_settle` finds and the written
module has; a pinned dimension has them as it was pinned.

A sum over several axes is scattered where what is summed over has them in the order of the result.
What is summed over, and no move speaks for, takes that order; `sum_order` says what becomes of the
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import axes_on
from toast.costmodel.kernels.journal import mark, note_collective
from toast.costmodel.network.collectives import Kind
from toast.costmodel.terms.journal import EDGE, PARTIAL, CollectiveReason

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

PERMUTE, REORDERED = int(Kind.COLLECTIVE_PERMUTE), int(CollectiveReason.REORDERED)
UNKNOWN = -1
"""The place of the first axis of a colour whose order is not found yet."""


@inner
def duration(t: Tables, kind: int, axes: int, size: float) -> float:
    """Seconds of one collective by the algorithm that is fastest for its size.

    The small kernels that are launched beside it, to cut, pack and put in place, are part of it.
    """
    seconds = t.mesh.alpha[kind, axes, 0] + t.mesh.beta[kind, axes, 0] * size
    for k in range(1, t.mesh.alpha.shape[2]):
        seconds = min(seconds, t.mesh.alpha[kind, axes, k] + t.mesh.beta[kind, axes, k] * size)
    return float(seconds + t.chip.launched)


@inner
def remember(
    t: Tables,
    s: Scratch,
    move: int,
    row: int,
    source: int,
    target: int,
    width: float,
    weight: float,
) -> None:
    """Keep what a move costs where some dimension has not the order that it wants.

    Moves are numbered: results of ops that have partial sums, then what uses want. Axes that stay
    on a dimension are to lead those that come or go.
    """
    s.axis_order.seconds[move] = 0.0
    a, b, axes = t.tensors.start[source], t.tensors.start[target], 0
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if _wants_an_order(t, s, a + d, b + d):
            axes |= have | want
    if axes:
        size = min(s.tensors.local[source], s.tensors.local[target]) * width
        seconds = t.mesh.alpha[PERMUTE, axes, 0] + t.mesh.beta[PERMUTE, axes, 0] * size
        s.axis_order.row[move], s.axis_order.axes[move] = row, axes
        s.axis_order.bytes[move], s.axis_order.times[move] = weight * size, weight
        s.axis_order.seconds[move] = weight * seconds


@inner
def remember_taken(t: Tables, s: Scratch, result: int, row: int, reduced: int, size: float) -> None:
    """Keep which dimension of a result takes all axes that its row sums over, if these are several.

    Not one that is sharded before: such sums are left to the compiler.
    """
    s.reduce_scatters.axes[result] = 0
    if reduced & (reduced - 1) == 0:
        return
    source, target = t.partial_sums.computed[result], t.partial_sums.defined[result]
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        if axes_on(t, s, b + d) & reduced == reduced and axes_on(t, s, a + d) == 0:
            s.reduce_scatters.axes[result], s.reduce_scatters.row[result] = reduced, row
            s.reduce_scatters.item[result] = t.tensors.dim_item[b + d]
            s.reduce_scatters.bytes[result] = size


@inner
def leads(t: Tables, s: Scratch, item: int, one: int, other: int) -> bool:
    """Whether an item has an axis before another: in its colour's order, or as it is pinned."""
    group = t.units.item_group[item]
    if group >= 0:
        return bool(s.axis_order.place[group, one] < s.axis_order.place[group, other])
    for k in range(t.units.fixed_start[item], t.units.fixed_start[item + 1]):
        if t.units.fixed_axis[k] == one or t.units.fixed_axis[k] == other:
            return bool(t.units.fixed_axis[k] == one)
    return one < other


@inner
def _settle(t: Tables, s: Scratch, group: int) -> None:
    """Find the order of a colour's axes, unless it is found.

    The next axis is always the one whose place costs moves the least, in the mesh's order where
    several cost nothing. What sums follow counts where no move speaks for two axes.
    """
    if group < 0 or s.axis_order.place[group, 0] != UNKNOWN:
        return
    axes = len(t.mesh.axis_size)
    left = (1 << axes) - 1
    for place in range(axes):
        first, least = -1, np.inf
        for one in range(axes):
            lost = 0.0
            for other in range(axes):
                if left >> other & 1:
                    lost += max(0.0, _worth(s, group, other, one) - _worth(s, group, one, other))
            if left >> one & 1 and lost < least:
                first, least = one, lost
        s.axis_order.place[group, first] = place
        left &= ~(1 << first)


@inner
def _worth(s: Scratch, group: int, one: int, other: int) -> float:
    """What it is worth to a colour that an axis leads another."""
    if s.axis_order.ahead[group, one, other] > 0.0 or s.axis_order.ahead[group, other, one] > 0.0:
        return float(s.axis_order.ahead[group, one, other])
    return float(s.axis_order.follows[group, one, other])


@inner
def _clear(t: Tables, s: Scratch, group: int) -> None:
    """Forget the order of a colour and what it was worth, once in an evaluation."""
    if group < 0 or s.axis_order.place[group, 0] == UNKNOWN:
        return
    s.axis_order.place[group, 0] = UNKNOWN
    for one in range(len(t.mesh.axis_size)):
        for other in range(len(t.mesh.axis_size)):
            s.axis_order.ahead[group, one, other], s.axis_order.follows[group, one, other] = (
                0.0,
                0.0,
            )


@inner
def _wants_an_order(t: Tables, s: Scratch, dim: int, other: int) -> bool:
    """Whether of the axes on a dimension some stay and others come or go."""
    have, want = axes_on(t, s, dim), axes_on(t, s, other)
    return bool(have & want and have ^ want)


@inner
def _group_of(t: Tables, dim: int) -> int:
    """The colour of a dimension of a tensor; -1 if it is pinned or never sharded."""
    item = t.tensors.dim_item[dim]
    return int(t.units.item_group[item]) if item >= 0 else -1


@inner
def _start_and_end(t: Tables, s: Scratch, move: int) -> tuple[int, int]:
    """The tensors that a move is from and to."""
    results = len(t.partial_sums.computed)
    if move < results:
        return t.partial_sums.computed[move], t.partial_sums.defined[move]
    return t.reshards.source[s.axis_order.row[move]], t.reshards.target[move - results]


@inner
def _gather(t: Tables, s: Scratch, move: int) -> None:
    """Add what a move costs to what the order that it wants is worth."""
    source, target = _start_and_end(t, s, move)
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if not _wants_an_order(t, s, a + d, b + d):
            continue
        for one in range(len(t.mesh.axis_size)):
            for other in range(len(t.mesh.axis_size)):
                if have & want & (1 << one) and (have ^ want) & (1 << other):
                    group = _group_of(t, a + d if have & (1 << other) else b + d)
                    if group >= 0:
                        s.axis_order.ahead[group, one, other] += s.axis_order.seconds[move]


@inner
def _loses(t: Tables, s: Scratch, move: int) -> bool:
    """Whether some dimension has not its axes in the order that a move wants."""
    source, target = _start_and_end(t, s, move)
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if not _wants_an_order(t, s, a + d, b + d):
            continue
        for one in range(len(t.mesh.axis_size)):
            for other in range(len(t.mesh.axis_size)):
                if have & want & (1 << one) and (have ^ want) & (1 << other):
                    dim = a + d if have & (1 << other) else b + d
                    if not leads(t, s, t.tensors.dim_item[dim], one, other):
                        return True
    return False


@inner
def _follow(t: Tables, s: Scratch, result: int) -> None:
    """Have what is summed over follow the order of the axes on the result that takes them."""
    row, kept = s.reduce_scatters.row[result], s.reduce_scatters.item[result]
    for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
        item, size = (
            t.partial_sums.item[k],
            t.partial_sums.weight[row] * s.reduce_scatters.bytes[result],
        )
        group = t.units.item_group[item]
        if group < 0:
            continue
        for one in range(len(t.mesh.axis_size)):
            for other in range(one + 1, len(t.mesh.axis_size)):
                both = 1 << one | 1 << other
                if s.units.mask[item] & s.reduce_scatters.axes[result] & both == both:
                    if _is_wanted(t, s, kept, one, other):
                        s.axis_order.follows[group, one, other] += size
                    else:
                        s.axis_order.follows[group, other, one] += size


@inner
def _is_wanted(t: Tables, s: Scratch, item: int, one: int, other: int) -> bool:
    """Whether moves want an item to have an axis before another; the mesh's order if none does."""
    group = t.units.item_group[item]
    if group < 0:
        return leads(t, s, item, one, other)
    return bool(s.axis_order.ahead[group, one, other] >= s.axis_order.ahead[group, other, one])


@inner
def find_orders(t: Tables, s: Scratch) -> None:
    """Find the orders that moves and sums are about, of what they are worth to these."""
    moves, results = len(s.axis_order.seconds), len(t.partial_sums.computed)
    _renew_all(t, s, found=False)
    for move in range(moves):
        if s.axis_order.seconds[move] > 0.0:
            _gather(t, s, move)
    for result in range(results):
        if s.reduce_scatters.axes[result]:
            _follow(t, s, result)
    _renew_all(t, s, found=True)


@inner
def _renew_all(t: Tables, s: Scratch, found: bool) -> None:
    """Forget the orders that moves and sums are about, or find them again.

    Those of dimensions where a move wants an order, of a result that takes the axes of its sums,
    and of what it sums over.
    """
    for result in range(len(t.partial_sums.computed)):
        if s.reduce_scatters.axes[result]:
            row = s.reduce_scatters.row[result]
            _renew(t, s, t.units.item_group[s.reduce_scatters.item[result]], found)
            for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
                _renew(t, s, t.units.item_group[t.partial_sums.item[k]], found)
    for move in range(len(s.axis_order.seconds)):
        if s.axis_order.seconds[move] > 0.0:
            source, target = _start_and_end(t, s, move)
            a, b = t.tensors.start[source], t.tensors.start[target]
            for d in range(t.tensors.start[source + 1] - a):
                if _wants_an_order(t, s, a + d, b + d):
                    _renew(t, s, _group_of(t, a + d), found)
                    _renew(t, s, _group_of(t, b + d), found)


@inner
def _renew(t: Tables, s: Scratch, group: int, found: bool) -> None:
    if found:
        _settle(t, s, group)
    else:
        _clear(t, s, group)


@inner
def reorders(t: Tables, s: Scratch) -> float:
    """Seconds of the permutes before moves that do not get the order they want.

    After `find_orders`.
    """
    results, spent = len(t.partial_sums.computed), 0.0
    for move in range(len(s.axis_order.seconds)):
        if s.axis_order.seconds[move] > 0.0 and _loses(t, s, move):
            row = s.axis_order.row[move]
            if move < results:
                mark(s.journal, PARTIAL, row, move - t.partial_sums.result_start[row])
            else:
                mark(s.journal, EDGE, row, move - results - t.reshards.target_start[row])
            count, size, seconds = (
                s.axis_order.times[move],
                s.axis_order.bytes[move],
                s.axis_order.seconds[move],
            )
            axes = s.axis_order.axes[move]
            note_collective(s.journal, PERMUTE, axes, count, size, seconds, REORDERED)
            spent += seconds
    return spent
