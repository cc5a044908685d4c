"""Which values reach memory once the compiler has fused, and which op reads them.

A value is *fused* when all its users compute it inside themselves: it costs neither memory nor
traffic. Every op that writes a value is the *root* of a fusion and reads each value that its fused
producers need once. With several users a value is computed again in each of them where that moves
fewer bytes than storing it. What a contraction computes is stored once, at the narrowest place of
the chain of elementwise ops behind it. Elementwise roots of one shape that feed each other become
one fusion with several results, as optimizer updates do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.program import Ints, Program
from analysis.types import itemsize
from costmodel.devices import Device
from costmodel.kernelmerge import Kernel, Root, merge_roots
from costmodel.reductions import merge_reductions
from costmodel.roles import EXPENSIVE, LAYOUT, Role, role

MAX_SOURCES = 24
"""A fusion that would read more values than this is cut, as compilers cut theirs."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a compiler fuses.

    `around` tells whether matrix products compute what feeds them and what is made of them inside
    themselves, as a TPU's do; if not they read and write memory. `repeats` tells whether costly
    elementwise ops are computed again in each of several users, `reduced` whether a reduction
    stores what it reads where others read it too.
    """

    around: bool = True
    repeats: bool = True
    reduced: bool = True


TPU = Policy()
EARLY_TPU = Policy(reduced=False)
GPU = Policy(around=False, repeats=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """`written[v]` tells whether value v reaches memory; `roots` are in program order.

    `light[v]` tells of a fused value whether no arithmetic made it, `narrow[v]` of a stored one
    whether its 32 bits are stored as 16.

    `kernels` are what is launched; `position[op]` is when an op's fusion runs: its index in the
    schedule.
    """

    policy: Policy
    written: Bools
    light: Bools
    narrow: Bools
    roots: tuple[Root, ...]
    kernels: tuple[Kernel, ...]
    position: Ints


@dataclass(slots=True)
class _Inputs:
    """What computing a fused value needs: uses of stored values, and contractions inside it.

    `expensive` where costly arithmetic is inside, `light` where there is none at all.
    """

    uses: frozenset[int]
    contractions: frozenset[int]
    expensive: bool = False
    light: bool = True


def fuse(program: Program, policy: Policy = TPU) -> Fusion:
    """Fuse as XLA's instruction and multi-output fusion do, by roles, users and bytes."""
    return _Fuser(program, policy).run()


def policy_of(device: Device) -> Policy:
    """How the compiler for a device fuses; processors as GPUs do."""
    if device.kind != "tpu":
        return GPU
    return EARLY_TPU if device.early else TPU


class _Fuser:
    def __init__(self, program: Program, policy: Policy) -> None:
        self._program = program
        self._policy = policy
        self._roles = [role(name) for name in program.names]
        self._users = _users(program)
        self._op_of_use = program.users
        self._shapes = program.shapes
        self._itemsize = [itemsize(dtype) for dtype in program.dtypes]
        self._written = np.zeros(program.values, dtype=np.bool_)
        self._inputs: dict[int, _Inputs] = {}
        self._stored = self._chain_ends()

    def run(self) -> Fusion:
        program, roots = self._program, []
        for op in range(program.ops):
            kind = self._role(op)
            needs = _gather(program, op, self._written, self._inputs, kind)
            if self._place(op, kind, needs) or kind is Role.NOTHING:
                reads, dots = tuple(sorted(needs.uses)), tuple(sorted(needs.contractions))
                roots.append(Root(op=op, reads=reads, contractions=dots))
        kernels = merge_roots(program, roots, self._roles)
        if self._policy.around:
            kernels = merge_reductions(program, kernels)
        return Fusion(
            policy=self._policy,
            written=self._written,
            light=self._light_values(),
            narrow=self._narrow_values(),
            roots=tuple(roots),
            kernels=tuple(kernels),
            position=_schedule(program, roots),
        )

    def _light_values(self) -> Bools:
        light = self._program.constant.copy()
        for value, needs in self._inputs.items():
            light[value] |= needs.light
        return light

    def _narrow_values(self) -> Bools:
        """What only products and the reductions beside it read, a TPU rounds as it stores it.

        Its matrix unit would round it otherwise.
        """
        program, narrow = self._program, np.zeros(self._program.values, dtype=np.bool_)
        for value in np.flatnonzero(self._written).tolist() if self._policy.around else ():
            made = self._role(program.makers[value])
            if program.dtype(value) == "f32" and made in (Role.FUSIBLE, Role.CONTRACTION):
                readers = self._readers(value)
                only = readers <= {Role.CONTRACTION, Role.REDUCE}
                narrow[value] = only and Role.CONTRACTION in readers
        return narrow

    def _readers(self, value: int) -> set[Role]:
        """The roles of what reads a value, looking through what only moves its elements."""
        program, found = self._program, set[Role]()
        for use in self._users[value]:
            op = self._op_of_use[use]
            moved = program.values_of(op)
            if program.kind(op) in LAYOUT and len(moved) == 1 and not self._written[moved[0]]:
                found |= self._readers(moved[0])
            else:
                found.add(self._role(op))
        return found

    def _role(self, op: int) -> Role:
        return self._roles[self._program.op_name[op]]

    def _bytes(self, value: int) -> float:
        return math.prod(self._shapes[value]) * self._itemsize[self._program.value_type[value]]

    def _chain_ends(self) -> set[int]:
        """For each contraction the value behind it that is stored: the last of the narrowest."""
        program, stored, taken = self._program, set(), set()
        for op in range(program.ops):
            if self._role(op) is not Role.CONTRACTION:
                continue
            chain = [program.values_of(op)[0]]
            while (following := self._next_in_chain(chain[-1])) is not None:
                if following in taken:
                    break
                chain.append(following)
                taken.add(following)
            stored.add(self._place_to_store(chain))
        return stored

    def _place_to_store(self, chain: list[int]) -> int:
        """Where a chain behind a contraction is stored.

        What a reduction and something else read is written by the reduction, as it reads it; on a
        GPU only where two others read it too. Otherwise a GPU stores what the contraction itself
        made, a TPU the last of the narrowest.
        """
        if self._policy.reduced and self._reduced(chain[-1]) and not self._light(chain[1:]):
            return chain[-1]
        if not self._policy.around:
            return chain[0]
        narrowest = min(self._bytes(value) for value in chain)
        return [value for value in chain if self._bytes(value) == narrowest][-1]

    def _light(self, values: list[int]) -> bool:
        """Whether the ops that made these values do no arithmetic."""
        program = self._program
        return all(program.kind(program.makers[value]) in LAYOUT for value in values)

    def _reduced(self, value: int) -> bool:
        users = {self._op_of_use[use] for use in self._users[value]}
        fewest = 2 if self._policy.around else 3
        return len(users) >= fewest and any(self._role(op) is Role.REDUCE for op in users)

    def _next_in_chain(self, value: int) -> int | None:
        """What the only user makes of a value, where that is elementwise and of one size."""
        program = self._program
        users = {self._op_of_use[use] for use in self._users[value]}
        if len(users) != 1:
            return None
        (op,) = users
        made = program.values_of(op)
        if self._role(op) is not Role.FUSIBLE or len(made) != 1:
            return None
        same = math.prod(self._shapes[made[0]]) == math.prod(self._shapes[value])
        return made[0] if same else None

    def _place(self, op: int, kind: Role, needs: _Inputs) -> bool:
        """Fuse each value of an op or have it written; True where one is written."""
        program, stores = self._program, False
        for value in program.values_of(op):
            if program.constant[value] or self._fuses(value, kind, needs):
                self._inputs[value] = needs
            else:
                self._written[value] = stores = True
        return stores

    def _fuses(self, value: int, kind: Role, needs: _Inputs) -> bool:
        if kind not in (Role.FUSIBLE, Role.CONTRACTION) or value in self._stored:
            return False
        users = self._users[value]
        if not users or not all(self._absorbs(value, use, needs) for use in users):
            return False
        if needs.contractions:
            return True
        if len(needs.uses) > MAX_SOURCES:
            return False
        if needs.expensive and len(users) > 1 and not self._policy.repeats:
            return False
        return self._cheaper_again(value, needs, len({self._op_of_use[use] for use in users}))

    def _cheaper_again(self, value: int, needs: _Inputs, users: int) -> bool:
        """Whether reading the inputs once for each user moves no more than storing the value."""
        own = self._bytes(value)
        sources = {self._program.sources[use] for use in needs.uses}
        read = sum(min(self._bytes(source), own) for source in sources)
        return users * read <= read + (users + 1) * own

    def _absorbs(self, value: int, use: int, needs: _Inputs) -> bool:
        """Whether the op of a use can compute the value inside itself.

        Not across the border of a loop, and not where it is the buffer that the op updates.
        """
        program = self._program
        op, home = self._op_of_use[use], program.makers[value]
        kind = self._role(op)
        if kind in (Role.NOTHING, Role.OPAQUE) or program.op_trips[op] != program.op_trips[home]:
            return False
        if kind is Role.CONTRACTION and not self._policy.around and not needs.light:
            return False
        return kind is not Role.UPDATE or use != program.op_uses[op]


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
    name = program.kind(op)
    expensive, light = name in EXPENSIVE, name in LAYOUT
    for use in program.uses_of(op):
        value = program.sources[use]
        if written[value]:
            uses.add(use)
        elif value in inputs:
            inner = inputs[value]
            uses |= inner.uses
            contractions |= inner.contractions
            expensive |= inner.expensive
            light &= inner.light
    return _Inputs(frozenset(uses), frozenset(contractions), expensive, light)


def _schedule(program: Program, roots: list[Root]) -> Ints:
    """When each op runs: in program order, but results of `main` as soon as their inputs exist.

    That is how a compiler schedules optimizer updates, to free the gradients.
    """
    returned = {program.sources[result.use] for result in program.results}
    position = np.arange(program.ops, dtype=np.int64)
    for root in roots:
        values = program.values_of(root.op)
        if len(values) and all(value in returned for value in values) and root.reads:
            sources = program.value_op[program.use_value[list(root.reads)]]
            position[root.op] = int(position[sources].max())
    return position
