"""Paths in the dimension graph, to tell compatible boxes from those with a path across."""

from __future__ import annotations

import numpy as np

from analysis.compiled import entry
from analysis.names import Colours
from analysis.program import Ints, Program


class Reach:
    """Answers which names can be reached from a name along M, in program order."""

    def __init__(self, program: Program, colours: Colours) -> None:
        names = len(program.factor_size)
        order = np.argsort(colours.edges[:, 0], kind="stable")
        self._targets = np.ascontiguousarray(colours.edges[order, 1])
        counts = np.bincount(colours.edges[:, 0], minlength=names)
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        factors = program.op_factors[1:] - program.op_factors[:-1]
        self._op = np.repeat(np.arange(program.ops), factors)
        self._last_op = program.ops
        self._stamp = np.zeros(names, dtype=np.int64)
        self._stack = np.empty(names + 1, dtype=np.int64)
        self._round = 0

    def compatible(self, source: tuple[int, int], target: tuple[int, int], crosswise: bool) -> bool:
        """Whether the box from conflict `source` to conflict `target` has no path across.

        The straight paths are those of the box itself: first to first and second to second,
        or the other way round where the box is `crosswise`.
        """
        first, second = target if crosswise else target[::-1]
        return not (self._path(source[0], first) or self._path(source[1], second))

    def _path(self, source: int, target: int) -> bool:
        self._round += 1
        return bool(
            _reaches(
                self._start,
                self._targets,
                self._op,
                self._stamp,
                self._stack,
                self._round,
                source,
                target,
            )
        )


@entry
def _reaches(
    start: Ints,
    targets: Ints,
    op: Ints,
    stamp: Ints,
    stack: Ints,
    turn: int,
    source: int,
    target: int,
) -> bool:
    """Depth-first from `source`; never looks past the op of `target`."""
    limit = op[target]
    stack[0] = source
    depth = 1
    while depth > 0:
        depth -= 1
        name = stack[depth]
        for k in range(start[name], start[name + 1]):
            following = targets[k]
            if following == target:
                return True
            if stamp[following] != turn and op[following] <= limit:
                stamp[following] = turn
                stack[depth] = following
                depth += 1
    return False
