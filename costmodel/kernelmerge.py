"""Fusions with several results: elementwise roots of one shape that feed each other.

XLA computes an optimizer's two moments and its update in one pass over memory; so do we.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.program import Program
from costmodel.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """An op that writes, the uses that it reads memory through, the contractions inside it."""

    op: int
    reads: tuple[int, ...]
    contractions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One or more roots that run as one fusion with several results."""

    ops: tuple[int, ...]
    reads: tuple[int, ...]
    contractions: tuple[int, ...]


def merge_roots(program: Program, roots: list[Root], roles: list[Role]) -> list[Kernel]:
    """Join each elementwise root with those that it reads, where nothing outside lies between."""
    return _Merger(program, roots, roles).run()


class _Merger:
    def __init__(self, program: Program, roots: list[Root], roles: list[Role]) -> None:
        self._program = program
        self._roots = roots
        self._group: dict[int, int] = {}
        self._members: dict[int, list[Root]] = {}
        for root in roots:
            loop = roles[program.op_name[root.op]] is Role.FUSIBLE and not root.contractions
            if loop:
                self._group[root.op] = root.op
            self._members[root.op] = [root]

    def run(self) -> list[Kernel]:
        for root in self._roots:
            if root.op in self._group:
                for source in self._sources(root):
                    if source in self._group and self._alike(source, root.op):
                        self._join(self._group[source], self._group[root.op])
        groups = (self._members[root.op] for root in self._roots if root.op in self._members)
        return [self._kernel(members) for members in groups]

    def _sources(self, root: Root) -> list[int]:
        program = self._program
        return [program.makers[program.sources[use]] for use in root.reads]

    def _alike(self, source: int, op: int) -> bool:
        program = self._program
        shapes = {program.shape(program.values_of(each)[0]) for each in (source, op)}
        return len(shapes) == 1 and bool(program.op_trips[source] == program.op_trips[op])

    def _join(self, left: int, right: int) -> None:
        """Only where no input from outside is made of what a member writes."""
        if left == right:
            return
        members = self._members[left] + self._members[right]
        ops = {root.op for root in members}
        outside = {source for root in members for source in self._sources(root)} - ops
        if self._depend(outside, ops):
            return
        keep, drop = min(left, right), max(left, right)
        self._members[keep] = members
        del self._members[drop]
        for root in members:
            self._group[root.op] = keep

    def _depend(self, outside: set[int], ops: set[int]) -> bool:
        """Whether something outside is computed, however far back, from one of the ops."""
        first, seen = min(ops), set[int]()
        left = [op for op in outside if op > first]
        while left:
            op = left.pop()
            for use in self._program.uses_of(op):
                source = self._program.makers[self._program.sources[use]]
                if source in ops:
                    return True
                if source > first and source not in seen:
                    seen.add(source)
                    left.append(source)
        return False

    def _kernel(self, members: list[Root]) -> Kernel:
        """What one member writes for another is not read from memory."""
        program = self._program
        ops = tuple(root.op for root in members)
        inside = {value for op in ops for value in program.values_of(op)}
        by_value: dict[int, int] = {}
        for root in members:
            for use in root.reads:
                by_value.setdefault(program.sources[use], use)
        reads = tuple(sorted(use for value, use in by_value.items() if value not in inside))
        dots = tuple(sorted({dot for root in members for dot in root.contractions}))
        return Kernel(ops=ops, reads=reads, contractions=dots)
