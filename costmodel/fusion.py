"""Which values reach memory once the compiler has fused, and which op reads them.

A value is *fused* when all its users can compute it inside themselves: it costs neither memory nor
traffic. Every op that writes a value is the *root* of a fusion and reads each value that its fused
producers need once. A cheap fused value with several users is computed again in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.program import Ints, Program
from costmodel.roles import Role, is_expensive, role

MAX_SOURCES = 24
"""A fusion that would read more values than this is cut, as compilers cut theirs."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A fusion: the op that writes, the uses that it reads memory through, its contractions."""

    op: int
    reads: tuple[int, ...]
    contractions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """`written[v]` tells whether value v reaches memory; `roots` are in program order.

    `position[op]` is when an op's fusion runs: its index in the schedule.
    """

    written: Bools
    roots: tuple[Root, ...]
    position: Ints


@dataclass(slots=True)
class _Inputs:
    """What computing a fused value needs: uses of stored values, and contractions inside it."""

    uses: frozenset[int]
    contractions: frozenset[int]
    heavy: bool


def fuse(program: Program) -> Fusion:
    """Fuse as XLA's instruction fusion does, by roles and number of users."""
    return _Fuser(program).run()


class _Fuser:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._roles = [role(name) for name in program.names]
        self._expensive = [is_expensive(name) for name in program.names]
        self._users = _users(program)
        self._written = np.zeros(program.values, dtype=np.bool_)
        self._inputs: dict[int, _Inputs] = {}

    def run(self) -> Fusion:
        program, roots = self._program, []
        for op in range(program.ops):
            kind = self._roles[program.op_name[op]]
            needs = _gather(program, op, self._written, self._inputs, kind)
            stores = self._place(op, kind, needs)
            if stores or kind is Role.NOTHING:
                reads, dots = tuple(sorted(needs.uses)), tuple(sorted(needs.contractions))
                roots.append(Root(op=op, reads=reads, contractions=dots))
        position = _schedule(program, roots)
        return Fusion(written=self._written, roots=tuple(roots), position=position)

    def _place(self, op: int, kind: Role, needs: _Inputs) -> bool:
        """Fuse each value of an op or have it written; True where one is written."""
        program, stores = self._program, False
        heavy = needs.heavy or self._expensive[program.op_name[op]] or kind >= Role.REDUCE
        absorbing = _absorbing(kind, heavy)
        for value in program.values_of(op):
            small = len(needs.uses) <= MAX_SOURCES
            if program.constant[value] or (small and self._fuses(value, absorbing, heavy)):
                self._inputs[value] = _Inputs(needs.uses, needs.contractions, heavy)
            else:
                self._written[value] = stores = True
        return stores

    def _fuses(self, value: int, absorbing: frozenset[Role], heavy: bool) -> bool:
        users = self._users[value]
        inside = all(self._absorbs(value, use, absorbing) for use in users)
        return inside and (len(users) == 1 or (not heavy and bool(users)))

    def _absorbs(self, value: int, use: int, absorbing: frozenset[Role]) -> bool:
        """Whether the op of a use can compute the value inside itself.

        Not across the border of a loop, and not where it is the buffer that the op updates.
        """
        program = self._program
        op, home = program.user(use), int(program.value_op[value])
        kind = self._roles[program.op_name[op]]
        if kind not in absorbing or program.op_trips[op] != program.op_trips[home]:
            return False
        return kind is not Role.UPDATE or use != program.op_uses[op]


def _absorbing(kind: Role, heavy: bool) -> frozenset[Role]:
    """The roles that can compute an op of this kind inside themselves."""
    if kind is Role.CONTRACTION:
        return frozenset({Role.FUSIBLE, Role.UPDATE})
    if kind is not Role.FUSIBLE:
        return frozenset()
    light = frozenset({Role.FUSIBLE, Role.REDUCE, Role.UPDATE})
    return light if heavy else light | {Role.CONTRACTION}


def _users(program: Program) -> list[list[int]]:
    """For each value its uses."""
    users: list[list[int]] = [[] for _ in range(program.values)]
    for use, value in enumerate(program.use_value.tolist()):
        users[value].append(use)
    return users


def _gather(
    program: Program, op: int, written: Bools, inputs: dict[int, _Inputs], kind: Role
) -> _Inputs:
    uses: set[int] = set()
    contractions: set[int] = {op} if kind is Role.CONTRACTION else set()
    heavy = False
    for use in program.uses_of(op):
        value = int(program.use_value[use])
        if written[value]:
            uses.add(use)
        elif value in inputs:
            uses |= inputs[value].uses
            contractions |= inputs[value].contractions
            heavy = heavy or inputs[value].heavy
    return _Inputs(frozenset(uses), frozenset(contractions), heavy)


def _schedule(program: Program, roots: list[Root]) -> Ints:
    """When each op runs: in program order, but results of `main` as soon as their inputs exist.

    That is how a compiler schedules optimizer updates, to free the gradients.
    """
    returned = {int(program.use_value[result.use]) for result in program.results}
    position = np.arange(program.ops, dtype=np.int64)
    for root in roots:
        values = program.values_of(root.op)
        if len(values) and all(value in returned for value in values) and root.reads:
            sources = program.value_op[program.use_value[list(root.reads)]]
            position[root.op] = int(position[sources].max())
    return position
