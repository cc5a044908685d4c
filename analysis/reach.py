"""Paths in the dimension graph, to tell compatible boxes from those with a path across."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import entry, inner
from analysis.names import Bools, Colours
from analysis.program import Ints, Program


class Reach:
    """Answers which names can be reached from a name along M, in program order."""

    def __init__(self, program: Program, colours: Colours) -> None:
        names = len(program.factor_size)
        source, target = colours.edges[:, 0], colours.edges[:, 1]
        factors = program.op_factors[1:] - program.op_factors[:-1]
        self._graph = Graph(
            forward_start=_starts(source, names),
            forward=target[np.argsort(source, kind="stable")],
            backward_start=_starts(target, names),
            backward=source[np.argsort(target, kind="stable")],
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


class Graph(NamedTuple):
    """The map M from definitions to uses and back, and the op of each name."""

    forward_start: Ints
    forward: Ints
    backward_start: Ints
    backward: Ints
    op: Ints


class _Walk(NamedTuple):
    """The names that a walk has met, by the number of the walk, and those to go on from."""

    stamp: Ints
    stack: Ints

    @classmethod
    def new(cls, names: int) -> _Walk:
        return cls(stamp=np.zeros(names, dtype=np.int64), stack=np.empty(names + 1, dtype=np.int64))


def _starts(names: Ints, count: int) -> Ints:
    counts = np.bincount(names, minlength=count)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@entry
def _across(g: Any, ahead: Any, back: Any, sources: Ints, ends: Ints, found: Bools) -> None:
    """Whether a path leads from the first source of a row to its first end, or so the second."""
    for row in range(len(sources)):
        for side in range(2):
            turn = 2 * row + side + 1
            if _reaches(g, ahead, back, turn, sources[row, side], ends[row, side]):
                found[row] = True
                break


@inner
def _reaches(g: Any, ahead: Any, back: Any, turn: int, source: int, target: int) -> bool:
    """Depth-first from both ends in turns, between the ops of these.

    Whichever walk comes to its end first without meeting the other tells that there is no path:
    behind a value of a forward pass lies most of a program, before most of its uses little.
    """
    low, high = g.op[source], g.op[target]
    ahead.stack[0] = source
    ahead.stamp[source] = turn
    back.stack[0] = target
    back.stamp[target] = turn
    depth_ahead = depth_back = 1
    while depth_ahead > 0 and depth_back > 0:
        depth_ahead -= 1
        name = ahead.stack[depth_ahead]
        for k in range(g.forward_start[name], g.forward_start[name + 1]):
            following = g.forward[k]
            if back.stamp[following] == turn:
                return True
            if ahead.stamp[following] != turn and g.op[following] <= high:
                ahead.stamp[following] = turn
                ahead.stack[depth_ahead] = following
                depth_ahead += 1
        depth_back -= 1
        name = back.stack[depth_back]
        for k in range(g.backward_start[name], g.backward_start[name + 1]):
            before = g.backward[k]
            if ahead.stamp[before] == turn:
                return True
            if back.stamp[before] != turn and g.op[before] >= low:
                back.stamp[before] = turn
                back.stack[depth_back] = before
                depth_back += 1
    return False
