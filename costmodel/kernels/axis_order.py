"""Kernels for the order of the axes on a dimension.

A collective takes or leaves the last axes of a dimension. Where some moves of a colour want one
axis last and others another, one of them reshuffles its tensor first, by permutes: those that cost
less. The writer of a plan orders the axes so (`toast.emit.axis_order`).

A sum over several axes is scattered where what is summed over has them in the order of the result.
A result that has them in another order than the mesh's is left to the compiler, which scatters it
in any case; one in the mesh's, of a sum that runs over them in another, is all-reduced and cut.
"""

from __future__ import annotations

from typing import Any

from toast.analysis.jit import inner
from toast.costmodel.kernels.incremental import axes_on
from toast.costmodel.kernels.journal import EDGE, PARTIAL, mark, note_collective, replace_collective
from toast.costmodel.network.collectives import Kind

PERMUTE, ALL_REDUCE = int(Kind.COLLECTIVE_PERMUTE), int(Kind.ALL_REDUCE)
REDUCE_SCATTER = int(Kind.REDUCE_SCATTER)


@inner
def duration(t: Any, kind: int, axes: int, size: float) -> float:
    """Seconds of one collective by the algorithm that is fastest for its size.

    The small kernels that are launched beside it, to cut, pack and put in place, are part of it.
    """
    seconds = t.axes_alpha[kind, axes, 0] + t.axes_beta[kind, axes, 0] * size
    for k in range(1, t.axes_alpha.shape[2]):
        seconds = min(seconds, t.axes_alpha[kind, axes, k] + t.axes_beta[kind, axes, k] * size)
    return float(seconds + t.launched[kind])


@inner
def remember(
    t: Any, s: Any, move: int, row: int, source: int, target: int, width: float, weight: float
) -> None:
    """Keep what a move needs of the order of axes, and what it costs where it has another.

    Moves are numbered: results of ops that have partial sums, then what uses want. Axes `turn_stay`
    are to lead `turn_go`, which come or go; of several such dimensions the first counts.
    """
    s.turn_seconds[move] = 0.0
    a, b = t.tensor_start[source], t.tensor_start[target]
    for d in range(t.tensor_start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if have & want and have ^ want:
            axes, size = have | want, min(s.local[source], s.local[target]) * width
            seconds = t.axes_alpha[PERMUTE, axes, 0] + t.axes_beta[PERMUTE, axes, 0] * size
            s.turn_row[move], s.turn_group[move] = row, t.item_group[t.dim_item[a + d]]
            s.turn_stay[move], s.turn_go[move] = have & want, have ^ want
            s.turn_bytes[move], s.turn_count[move] = weight * size, weight
            s.turn_seconds[move] = weight * seconds
            return


@inner
def remember_scattered(
    t: Any, s: Any, result: int, row: int, scattered: int, reduced: int, size: float
) -> None:
    """Keep what a result of a row is scattered over, if that is all its sums and several axes.

    Not where the dimension is sharded before: such sums are left to the compiler as well.
    """
    s.cut_axes[result] = 0
    if scattered != reduced or scattered & (scattered - 1) == 0:
        return
    source, target = t.part_computed[result], t.part_defined[result]
    a, b = t.tensor_start[source], t.tensor_start[target]
    for d in range(t.tensor_start[source + 1] - a):
        have, want = axes_on(t, s, a + d), axes_on(t, s, b + d)
        if want & ~have & scattered:
            if have:
                return
            s.cut_group[result] = t.item_group[t.dim_item[b + d]]
    s.cut_axes[result], s.cut_row[result], s.cut_bytes[result] = scattered, row, size


@inner
def _leads(s: Any, group: int, one: int, other: int) -> bool:
    """Whether a colour has an axis before another: the mesh's order where no move wants one."""
    mine, theirs = s.ahead[group, one, other], s.ahead[group, other, one]
    return bool(mine > theirs or (mine == theirs and one < other))


@inner
def _place_of(t: Any, s: Any, row: int, axis: int) -> int:
    """The item that a row sums over and that an axis is on."""
    for k in range(t.part_item_start[row], t.part_item_start[row + 1]):
        if s.mask[t.part_item[k]] >> axis & 1:
            return k
    return -1


@inner
def _is_summed_whole(t: Any, s: Any, result: int) -> bool:
    """Whether a result is in the mesh's order and its sums run over the axes in another."""
    axes, row, turned = s.cut_axes[result], s.cut_row[result], False
    for one in range(len(t.axis_size)):
        for other in range(one + 1, len(t.axis_size)):
            if not (axes >> one & 1 and axes >> other & 1):
                continue
            if not _leads(s, s.cut_group[result], one, other):
                return False
            first, second = _place_of(t, s, row, one), _place_of(t, s, row, other)
            if first == second:
                turned |= not _leads(s, t.item_group[t.part_item[first]], one, other)
            else:
                turned |= t.sums_in_turn and first > second
    return turned


@inner
def summed_whole(t: Any, s: Any) -> float:
    """Seconds that sums take longer which are not scattered for the order of their axes.

    After `reorders`, which finds the orders.
    """
    spent = 0.0
    for result in range(len(t.part_computed)):
        axes, row = s.cut_axes[result], s.cut_row[result]
        s.cut_whole[result] = axes and s.reduced[row] and _is_summed_whole(t, s, result)
        if s.cut_whole[result]:
            size, weight = s.cut_bytes[result], t.part_weight[row]
            whole = weight * duration(t, ALL_REDUCE, axes, size)
            wire = weight * size * t.axes_wire[ALL_REDUCE, axes]
            place = result - t.part_result_start[row]
            kinds = (REDUCE_SCATTER, ALL_REDUCE)
            replace_collective(s.journal, s.noted, row, place, kinds, wire, whole)
            spent += whole - weight * duration(t, REDUCE_SCATTER, axes, size)
    return spent


@inner
def _forget(t: Any, s: Any, result: int) -> None:
    """Set to nothing what the orders of a result and of what it sums over are worth."""
    row = s.cut_row[result]
    for one in range(len(t.axis_size)):
        for other in range(len(t.axis_size)):
            s.ahead[s.cut_group[result], one, other] = 0.0
            for k in range(t.part_item_start[row], t.part_item_start[row + 1]):
                group = t.item_group[t.part_item[k]]
                if group >= 0:
                    s.ahead[group, one, other] = 0.0


@inner
def _gather(t: Any, s: Any, move: int, zero: bool) -> None:
    """Add what a move costs to what its order is worth to the colour, or set that to nothing."""
    group, axes = s.turn_group[move], len(t.axis_size)
    for one in range(axes):
        for other in range(axes):
            if s.turn_stay[move] >> one & 1 and s.turn_go[move] >> other & 1:
                if zero:
                    s.ahead[group, one, other], s.ahead[group, other, one] = 0.0, 0.0
                else:
                    s.ahead[group, one, other] += s.turn_seconds[move]


@inner
def _loses(t: Any, s: Any, move: int) -> bool:
    """Whether other moves of the colour have more to lose by the order that one wants."""
    group, axes = s.turn_group[move], len(t.axis_size)
    for one in range(axes):
        for other in range(axes):
            if s.turn_stay[move] >> one & 1 and s.turn_go[move] >> other & 1:
                mine, theirs = s.ahead[group, one, other], s.ahead[group, other, one]
                if theirs > mine or (theirs == mine and other < one):
                    return True
    return False


@inner
def reorders(t: Any, s: Any) -> float:
    """Seconds of the permutes before moves that do not get the order they want."""
    moves, results, spent = len(s.turn_seconds), len(t.part_computed), 0.0
    for result in range(results):
        if s.cut_axes[result]:
            _forget(t, s, result)
    for stage in range(2):
        for move in range(moves):
            if s.turn_seconds[move] > 0.0:
                _gather(t, s, move, stage == 0)
    for move in range(moves):
        if s.turn_seconds[move] > 0.0 and _loses(t, s, move):
            row, axes = s.turn_row[move], s.turn_stay[move] | s.turn_go[move]
            if move < results:
                mark(s.journal, s.noted, PARTIAL, row, move - t.part_result_start[row])
            else:
                mark(s.journal, s.noted, EDGE, row, move - results - t.edge_to_start[row])
            count, size, seconds = s.turn_count[move], s.turn_bytes[move], s.turn_seconds[move]
            note_collective(s.journal, s.noted, PERMUTE, axes, count, size, seconds)
            spent += seconds
    return spent
