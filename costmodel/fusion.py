"""Which values reach memory once the compiler has fused, and which op reads them.

A value is *fused* when all its users compute it inside themselves: it costs neither memory nor
traffic. Every op that writes a value is the *root* of a fusion and reads each value that its fused
producers need once. With several users a value is computed again in each of them where that moves
fewer bytes than storing it. What a contraction computes is stored once, at the narrowest place of
the chain of elementwise ops behind it. Elementwise roots of one shape that feed each other become
one fusion with several results, as optimizer updates do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.program import Ints, Program
from analysis.types import itemsize
from costmodel.columns import floats, ints
from costmodel.devices import Device
from costmodel.flops import Sides, product_sides
from costmodel.kernelfusion import Bools, Graph, Needs, fuse_values
from costmodel.kernelmerge import Kernel, Root, merge_roots
from costmodel.reductions import merge_reductions
from costmodel.roles import CHEAP, EXPENSIVE, LAYOUT, Role, role

MAX_SOURCES = 24
"""A fusion that would read more values than this is cut, as compilers cut theirs."""


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
    schedule. `bytes` are those of every value, `sides` of every matrix product as in `flops`.
    """

    policy: Policy
    sides: dict[int, Sides]
    bytes: list[float]
    written: Bools
    light: Bools
    narrow: Bools
    roots: tuple[Root, ...]
    kernels: tuple[Kernel, ...]
    position: Ints


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
        self._bytes = _value_bytes(program)
        self._stored = self._chain_ends()

    def run(self) -> Fusion:
        program = self._program
        needs = self._needs()
        self._written = needs.written
        roots = _roots(needs)
        kernels = merge_roots(program, roots, self._roles)
        if self._policy.around:
            kernels = merge_reductions(program, kernels)
        return Fusion(
            policy=self._policy,
            sides=product_sides(program),
            bytes=self._bytes,
            written=self._written,
            light=program.constant | (~needs.written & needs.light[program.value_op]),
            narrow=self._narrow_values(),
            roots=tuple(roots),
            kernels=tuple(kernels),
            position=_schedule(program, roots),
        )

    def _needs(self) -> Needs:
        """Which values are written, and what computing the others needs."""
        program, policy = self._program, self._policy
        stored = np.zeros(program.values, dtype=np.bool_)
        stored[list(self._stored)] = True
        starts, readers = program.readers
        graph = Graph(
            role=ints(self._roles)[program.op_name],
            costly=_named(program, EXPENSIVE),
            layout=_named(program, LAYOUT),
            cheap=_named(program, CHEAP | LAYOUT),
            matrix=_named(program, frozenset({"stablehlo.dot_general"})),
            trips=program.op_trips,
            uses=program.op_uses,
            values=program.op_values,
            source=program.use_value,
            user=ints(program.users),
            maker=program.value_op,
            reader_start=starts,
            reader=readers,
            bytes=floats(self._bytes),
            single=np.array([dtype == "f32" for dtype in program.dtypes])[program.value_type],
            constant=program.constant,
            stored=stored,
            around=policy.around,
            repeats=policy.repeats,
            most=MAX_SOURCES,
        )
        room = 4 * len(program.use_value) + program.ops
        while not fuse_values(graph, found := _new_needs(program, room)):
            room *= 2
        return found

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
        narrowest = min(self._bytes[value] for value in chain)
        return [value for value in chain if self._bytes[value] == narrowest][-1]

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
        same = program.elements[made[0]] == program.elements[value]
        return made[0] if same else None


def _value_bytes(program: Program) -> list[float]:
    """The bytes of every value, of elements that may be of less than one."""
    sizes = np.array([itemsize(dtype) for dtype in program.dtypes])[program.value_type]
    found: list[float] = (np.array(program.elements, dtype=np.float64) * sizes).tolist()
    return found


def _users(program: Program) -> list[list[int]]:
    """For each value its uses."""
    users: list[list[int]] = [[] for _ in range(program.values)]
    for use, value in enumerate(program.use_value.tolist()):
        users[value].append(use)
    return users


def _named(program: Program, names: frozenset[str]) -> Bools:
    """For each op whether its name is one of these."""
    return np.array([name in names for name in program.names], dtype=np.bool_)[program.op_name]


def _new_needs(program: Program, room: int) -> Needs:
    """Room for what `fuse_values` finds."""
    ops, uses, values = program.ops, len(program.use_value), program.values

    def flags(count: int) -> Bools:
        return np.zeros(count, dtype=np.bool_)

    def numbers(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return Needs(
        written=flags(values),
        root=flags(ops),
        use_start=numbers(ops),
        use_end=numbers(ops),
        use=numbers(room),
        dot_start=numbers(ops),
        dot_end=numbers(ops),
        dot=numbers(room),
        expensive=flags(ops),
        light=flags(ops),
        cheap=flags(ops),
        use_stamp=numbers(uses),
        value_stamp=numbers(values),
        dot_stamp=numbers(ops),
    )


def _roots(needs: Needs) -> list[Root]:
    """The ops that write, with what they read."""
    ops = np.flatnonzero(needs.root)
    uses, dots = (
        pool[: ends[-1] if len(ends) else 0].tolist()
        for pool, ends in ((needs.use, needs.use_end), (needs.dot, needs.dot_end))
    )
    bounds = (needs.use_start, needs.use_end, needs.dot_start, needs.dot_end)
    return [
        Root(op=op, reads=tuple(uses[a:b]), contractions=tuple(dots[c:d]))
        for op, a, b, c, d in zip(
            ops.tolist(), *(bound[ops].tolist() for bound in bounds), strict=True
        )
    ]


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
