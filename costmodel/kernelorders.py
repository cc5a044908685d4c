"""Kernels for the order of the axes on a dimension.

A collective takes or leaves the last axes of a dimension. Where some moves of a colour want one
axis last and others another, one of them reshuffles its tensor first, by permutes: those that cost
less. The writer of a plan orders the axes so (`toast.axisorder`).
"""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner
from costmodel.collectives import Kind
from costmodel.kernelchanges import axes_on
from costmodel.kerneljournal import EDGE, PARTIAL, mark, note_collective

PERMUTE = int(Kind.COLLECTIVE_PERMUTE)


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
