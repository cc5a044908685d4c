"""Kernels for the order of the axes on a dimension.

A collective takes or leaves the last axes of a dimension. Where some moves of a colour want one
axis last and others another, one of them reshuffles its tensor first, by permutes: those that cost
less. The writer of a plan orders the axes so (`toast.emit.axis_order`).

A sum over several axes is scattered where what is summed over has them in the order of the result.
A result that has them in another order than the mesh's is left to the compiler, which scatters it
in any case; one in the mesh's, of a sum that runs over them in another, is all-reduced and cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import axes_on
from toast.costmodel.kernels.journal import mark, note_collective, replace_collective
from toast.costmodel.network.collectives import Kind
from toast.costmodel.terms.journal import EDGE, PARTIAL

if TYPE_CHECKING:
    from toast.costmodel.terms.tables import Scratch, Tables

PERMUTE, ALL_REDUCE = int(Kind.COLLECTIVE_PERMUTE), int(Kind.ALL_REDUCE)
REDUCE_SCATTER = int(Kind.REDUCE_SCATTER)


@inner
def duration(t: Tables, kind: int, axes: int, size: float) -> float:
    """Seconds of one collective by the algorithm that is fastest for its size.

    The small kernels that are launched beside it, to cut, pack and put in place, are part of it.
    """
    seconds = t.mesh.alpha[kind, axes, 0] + t.mesh.beta[kind, axes, 0] * size
    for k in range(1, t.mesh.alpha.shape[2]):
        seconds = min(seconds, t.mesh.alpha[kind, axes, k] + t.mesh.beta[kind, axes, k] * size)
    return float(seconds + t.chip.launched[kind])


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
    """Keep what a move needs of the order of axes, and what it costs where it has another.

    Moves are numbered: results of ops that have partial sums, then what uses want. Axes `turn_stay`
    are to lead `turn_go`, which come or go; of several such dimensions the first counts.
    """
    s.axis_order.seconds[move] = 0.0
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if have & want and have ^ want:
            axes, size = have | want, min(s.tensors.local[source], s.tensors.local[target]) * width
            seconds = t.mesh.alpha[PERMUTE, axes, 0] + t.mesh.beta[PERMUTE, axes, 0] * size
            s.axis_order.row[move], s.axis_order.group[move] = (
                row,
                t.units.item_group[t.tensors.dim_item[a + d]],
            )
            s.axis_order.stay[move], s.axis_order.go[move] = have & want, have ^ want
            s.axis_order.bytes[move], s.axis_order.times[move] = weight * size, weight
            s.axis_order.seconds[move] = weight * seconds
            return


@inner
def remember_scattered(
    t: Tables, s: Scratch, result: int, row: int, scattered: int, reduced: int, size: float
) -> None:
    """Keep what a result of a row is scattered over, if that is all its sums and several axes.

    Not where the dimension is sharded before: such sums are left to the compiler as well.
    """
    s.reduce_scatters.axes[result] = 0
    if scattered != reduced or scattered & (scattered - 1) == 0:
        return
    source, target = t.partial_sums.computed[result], t.partial_sums.defined[result]
    a, b = t.tensors.start[source], t.tensors.start[target]
    for d in range(t.tensors.start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if want & ~have & scattered:
            if have:
                return
            s.reduce_scatters.group[result] = t.units.item_group[t.tensors.dim_item[b + d]]
    (
        s.reduce_scatters.axes[result],
        s.reduce_scatters.row[result],
        s.reduce_scatters.bytes[result],
    ) = scattered, row, size


@inner
def _leads(s: Scratch, group: int, one: int, other: int) -> bool:
    """Whether a colour has an axis before another: the mesh's order where no move wants one."""
    mine, theirs = s.axis_order.ahead[group, one, other], s.axis_order.ahead[group, other, one]
    return bool(mine > theirs or (mine == theirs and one < other))


@inner
def _place_of(t: Tables, s: Scratch, row: int, axis: int) -> int:
    """The item that a row sums over and that an axis is on."""
    for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
        if s.units.mask[t.partial_sums.item[k]] >> axis & 1:
            return k
    return -1


@inner
def _is_summed_whole(t: Tables, s: Scratch, result: int) -> bool:
    """Whether a result is in the mesh's order and its sums run over the axes in another."""
    axes, row, turned = s.reduce_scatters.axes[result], s.reduce_scatters.row[result], False
    for one in range(len(t.mesh.axis_size)):
        for other in range(one + 1, len(t.mesh.axis_size)):
            if not (axes >> one & 1 and axes >> other & 1):
                continue
            if not _leads(s, s.reduce_scatters.group[result], one, other):
                return False
            first, second = _place_of(t, s, row, one), _place_of(t, s, row, other)
            if first == second:
                turned |= not _leads(s, t.units.item_group[t.partial_sums.item[first]], one, other)
            else:
                turned |= t.chip.sums_in_turn and first > second
    return turned


@inner
def summed_whole(t: Tables, s: Scratch) -> float:
    """Seconds that sums take longer which are not scattered for the order of their axes.

    After `reorders`, which finds the orders.
    """
    spent = 0.0
    for result in range(len(t.partial_sums.computed)):
        axes, row = s.reduce_scatters.axes[result], s.reduce_scatters.row[result]
        s.reduce_scatters.whole[result] = (
            axes and s.partial_sums.reduced[row] and _is_summed_whole(t, s, result)
        )
        if s.reduce_scatters.whole[result]:
            size, weight = s.reduce_scatters.bytes[result], t.partial_sums.weight[row]
            whole = weight * duration(t, ALL_REDUCE, axes, size)
            wire = weight * size * t.mesh.wire[ALL_REDUCE, axes]
            place = result - t.partial_sums.result_start[row]
            kinds = (REDUCE_SCATTER, ALL_REDUCE)
            replace_collective(s.journal, row, place, kinds, wire, whole)
            spent += whole - weight * duration(t, REDUCE_SCATTER, axes, size)
    return spent


@inner
def _forget(t: Tables, s: Scratch, result: int) -> None:
    """Set to nothing what the orders of a result and of what it sums over are worth."""
    row = s.reduce_scatters.row[result]
    for one in range(len(t.mesh.axis_size)):
        for other in range(len(t.mesh.axis_size)):
            s.axis_order.ahead[s.reduce_scatters.group[result], one, other] = 0.0
            for k in range(t.partial_sums.item_start[row], t.partial_sums.item_start[row + 1]):
                group = t.units.item_group[t.partial_sums.item[k]]
                if group >= 0:
                    s.axis_order.ahead[group, one, other] = 0.0


@inner
def _gather(t: Tables, s: Scratch, move: int, zero: bool) -> None:
    """Add what a move costs to what its order is worth to the colour, or set that to nothing."""
    group, axes = s.axis_order.group[move], len(t.mesh.axis_size)
    for one in range(axes):
        for other in range(axes):
            if s.axis_order.stay[move] >> one & 1 and s.axis_order.go[move] >> other & 1:
                if zero:
                    s.axis_order.ahead[group, one, other], s.axis_order.ahead[group, other, one] = (
                        0.0,
                        0.0,
                    )
                else:
                    s.axis_order.ahead[group, one, other] += s.axis_order.seconds[move]


@inner
def _loses(t: Tables, s: Scratch, move: int) -> bool:
    """Whether other moves of the colour have more to lose by the order that one wants."""
    group, axes = s.axis_order.group[move], len(t.mesh.axis_size)
    for one in range(axes):
        for other in range(axes):
            if s.axis_order.stay[move] >> one & 1 and s.axis_order.go[move] >> other & 1:
                mine, theirs = (
                    s.axis_order.ahead[group, one, other],
                    s.axis_order.ahead[group, other, one],
                )
                if theirs > mine or (theirs == mine and other < one):
                    return True
    return False


@inner
def reorders(t: Tables, s: Scratch) -> float:
    """Seconds of the permutes before moves that do not get the order they want."""
    moves, results, spent = len(s.axis_order.seconds), len(t.partial_sums.computed), 0.0
    for result in range(results):
        if s.reduce_scatters.axes[result]:
            _forget(t, s, result)
    for stage in range(2):
        for move in range(moves):
            if s.axis_order.seconds[move] > 0.0:
                _gather(t, s, move, stage == 0)
    for move in range(moves):
        if s.axis_order.seconds[move] > 0.0 and _loses(t, s, move):
            row, axes = s.axis_order.row[move], s.axis_order.stay[move] | s.axis_order.go[move]
            if move < results:
                mark(s.journal, PARTIAL, row, move - t.partial_sums.result_start[row])
            else:
                mark(s.journal, EDGE, row, move - results - t.reshards.target_start[row])
            count, size, seconds = (
                s.axis_order.times[move],
                s.axis_order.bytes[move],
                s.axis_order.seconds[move],
            )
            note_collective(s.journal, PERMUTE, axes, count, size, seconds)
            spent += seconds
    return spent
