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
    roles = [role(name) for name in program.names]
    expensive = [is_expensive(name) for name in program.names]
    users = _users(program)
    written = np.zeros(program.values, dtype=np.bool_)
    inputs: dict[int, _Inputs] = {}
    roots: list[Root] = []
    for op in range(program.ops):
        kind = roles[program.op_name[op]]
        needs = _gather(program, op, written, inputs, kind)
        heavy = needs.heavy or expensive[program.op_name[op]] or kind >= Role.REDUCE
        stores = False
        for value in program.values_of(op):
            if _fuses(program, value, kind, users, roles, heavy, len(needs.uses)):
                inputs[value] = _Inputs(needs.uses, needs.contractions, heavy)
            else:
                written[value] = not program.constant[value]
                stores = True
        if stores or kind is Role.NOTHING:
            reads, dots = tuple(sorted(needs.uses)), tuple(sorted(needs.contractions))
            roots.append(Root(op=op, reads=reads, contractions=dots))
    return Fusion(written=written, roots=tuple(roots), position=_schedule(program, roots))


def _users(program: Program) -> list[list[int]]:
    """For each value the ops that use it."""
    users: list[list[int]] = [[] for _ in range(program.values)]
    for op in range(program.ops):
        for use in program.uses_of(op):
            users[program.use_value[use]].append(op)
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


def _fuses(
    program: Program,
    value: int,
    kind: Role,
    users: list[list[int]],
    roles: list[Role],
    heavy: bool,
    reads: int,
) -> bool:
    if program.constant[value]:
        return True
    if kind not in (Role.FUSIBLE, Role.CONTRACTION) or reads > MAX_SOURCES:
        return False
    using = users[value]
    absorbing = {Role.FUSIBLE}
    if kind is Role.FUSIBLE:
        absorbing |= {Role.REDUCE} if heavy else {Role.REDUCE, Role.CONTRACTION}
    if any(roles[program.op_name[op]] not in absorbing for op in using):
        return False
    return len(using) == 1 or (not heavy and bool(using))


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
