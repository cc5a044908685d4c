"""Paths in the dimension graph: which boxes have one across, and so are not compatible."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from toast.analysis.jit import entry, inner
from toast.analysis.names import Bools
from toast.analysis.program import Ints, Program

MET = -1
"""In place of how many names a walk goes on from: it has met the other."""


class Reach:
    """Answers which names can be reached from a name along the `edges` of M, in program order."""

    def __init__(self, program: Program, edges: Ints) -> None:
        names = len(program.factor_size)
        source, target = edges[:, 0], edges[:, 1]
        factors = program.op_factors[1:] - program.op_factors[:-1]
        self._graph = DimensionGraph(
            forward=GraphEdges.of(source, target, names),
            backward=GraphEdges.of(target, source, names),
            op=np.repeat(np.arange(program.ops), factors),
        )
        self._walks = (_Walk.new(names), _Walk.new(names))

    def across(self, sources: Ints, targets: Ints, crosswise: Bools) -> Bools:
        """For boxes from one pair of names to another [boxes, 2] whether a path runs across.

        The straight paths are those of the box itself: first to first and second to second,
        or the other way round where the box is `crosswise`.
        """
        found = np.zeros(len(sources), dtype=np.bool_)
        ends = np.where(crosswise[:, None], targets, targets[:, ::-1])
        _across(self._graph, *self._walks, np.ascontiguousarray(sources), ends, found)
        return found


class GraphEdges(NamedTuple):
    """The names that each name leads to, from `start` on."""

    start: Ints
    name: Ints

    @classmethod
    def of(cls, source: Ints, target: Ints, names: int) -> GraphEdges:
        """From the two ends of each edge."""
        counts = np.bincount(source, minlength=names)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(start=start, name=target[np.argsort(source, kind="stable")])


class DimensionGraph(NamedTuple):
    """The map M from definitions to uses and back, and the op of each name."""

    forward: GraphEdges
    backward: GraphEdges
    op: Ints


class _Walk(NamedTuple):
    """The names that a walk has met, by the number of the walk, and those to go on from."""

    stamp: Ints
    stack: Ints

    @classmethod
    def new(cls, names: int) -> _Walk:
        return cls(stamp=np.zeros(names, dtype=np.int64), stack=np.empty(names + 1, dtype=np.int64))


@entry
def _across(g: Any, ahead: Any, back: Any, sources: Ints, ends: Ints, found: Bools) -> None:
    """Whether a path leads from the first source of a row to its first end, or second to second."""
    for row in range(len(sources)):
        for side in range(2):
            turn = 2 * row + side + 1
            if _reaches(g, ahead, back, turn, sources[row, side], ends[row, side]):
                found[row] = True
                break


@inner
def _reaches(g: Any, ahead: Any, back: Any, turn: int, source: int, target: int) -> bool:
    """Depth-first from both ends in turns, between the ops of these.

    A walk that ends without meeting the other proves that there is no path. One of the two is
    short: most of a program lies behind a value of the forward pass, and little before most of its
    uses.
    """
    ahead.stack[0], ahead.stamp[source] = source, turn
    back.stack[0], back.stamp[target] = target, turn
    first, last = g.op[source], g.op[target]
    end = g.op[len(g.op) - 1]
    depth_ahead = depth_back = 1
    while depth_ahead > 0 and depth_back > 0:
        depth_ahead = _step(g, g.forward, ahead, back, turn, depth_ahead, 0, last)
        if depth_ahead == MET:
            return True
        depth_back = _step(g, g.backward, back, ahead, turn, depth_back, first, end)
    return depth_back == MET


@inner
def _step(
    g: Any, edges: Any, walk: Any, other: Any, turn: int, depth: int, first: int, last: int
) -> int:
    """Go on from the last of the `depth` names of a walk, to ops from `first` to `last`.

    Returns how many names there are to go on from then, or `MET`.
    """
    depth -= 1
    name = walk.stack[depth]
    for k in range(edges.start[name], edges.start[name + 1]):
        met = edges.name[k]
        if other.stamp[met] == turn:
            return MET
        if walk.stamp[met] != turn and first <= g.op[met] <= last:
            walk.stamp[met] = turn
            walk.stack[depth] = met
            depth += 1
    return depth
