"""Where single decisions can be taken: ops, values and uses that a colour lays out together.

A *site* is what one decision below the colour level moves: an op or a value, mirrored over repeated
layers, with everything that must have the same layout. That is every end of what a loop carries,
and the result that takes over an argument's buffer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import ARGUMENT, RETURN, TRANSFERS, Program
from toast.analysis.unionfind import components
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.program_facts import Marks

Thing = tuple[str, int]
"""`("op", number)`, `("value", number)`, or `("use", number)` for a use by a transfer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSite:
    """Things with one layout; `names` are the factors behind the items of the first."""

    things: tuple[Thing, ...]
    names: tuple[int, ...]

    @property
    def first(self) -> Thing:
        """The thing that represents all."""
        return self.things[0]


class SiteMembers:
    """The things of a program, which of them are coupled, and which are next to each other."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.program: Program = evaluator.analysis.program
        self.layouts = evaluator.layouts
        program = self.program
        counts = program.op_uses[1:] - program.op_uses[:-1]
        self._user = np.repeat(np.arange(program.ops), counts).tolist()
        order = np.argsort(program.use_value, kind="stable")
        bounds = np.searchsorted(program.use_value[order], np.arange(program.values + 1))
        self._uses, self._bounds = order.tolist(), bounds.tolist()
        moves = np.isin(program.op_name, [i for i, n in enumerate(program.names) if n in TRANSFERS])
        self._moves = moves.tolist()
        self._coupled = self._couplings()

    def is_transfer(self, op: int) -> bool:
        """Whether an op passes each tensor on by itself."""
        return bool(self._moves[op])

    def uses(self, value: int) -> list[int]:
        """The uses of a value."""
        return self._uses[self._bounds[value] : self._bounds[value + 1]]

    def names(self, thing: Thing) -> tuple[int, ...]:
        """The factors behind the items of a thing's unit."""
        kind, number = thing
        program = self.program
        if kind == "op":
            return tuple(program.factors_of(number))
        found = program.def_names(number) if kind == "value" else program.use_names(number)
        return tuple(found.tolist())

    def with_coupled(self, thing: Thing) -> tuple[Thing, ...]:
        """A thing and those that must have its layout, itself first."""
        return (thing, *(other for other in self._coupled.get(thing, ()) if other != thing))

    def beside(self, thing: Thing) -> Iterator[Thing]:
        """The ops that make or use a value; the values that an op uses or makes."""
        kind, number = thing
        program = self.program
        if kind == "op":
            yield from (("value", value) for value in program.values_of(number))
            for use in program.uses_of(number):
                yield "value", program.sources[use]
        elif kind == "value":
            maker = program.makers[number]
            if not self._moves[maker]:
                yield "op", maker
            for use in self.uses(number):
                yield self.user_of(use)

    def user_of(self, use: int) -> Thing:
        """The op that a use belongs to; the use itself where that is a transfer."""
        op = self._user[use]
        return ("use", use) if self._moves[op] else ("op", op)

    def key(self, thing: Thing) -> Hashable:
        """Equal for things at the same place of repeated layers."""
        kind, number = thing
        program, layouts = self.program, self.layouts
        if kind == "use":
            return kind, program.kind(self._user[number]), int(layouts.use_tensor[number])
        if kind == "op":
            used = program.use_value[program.uses_of(number)]
            wanted = tuple(layouts.value_tensor[used].tolist())
            made = tuple(layouts.value_tensor[program.values_of(number)].tolist())
            signature = int(program.op_signature[number])
            return kind, signature, int(layouts.op_unit[number]), wanted, made
        maker = program.makers[number]
        place = -1 if self._moves[maker] else number - int(program.op_values[maker])
        origin = program.kind(maker) if place < 0 else int(program.op_signature[maker])
        users = tuple(sorted({self._used(use) for use in self.uses(number)}))
        return kind, origin, place, int(layouts.value_tensor[number]), users

    def key_of(self, members: Sequence[Thing]) -> Hashable:
        """The same of coupled things."""
        if len(members) == 1:
            return self.key(members[0])
        return tuple(sorted(repr(self.key(member)) for member in members))

    def is_constant(self, thing: Thing) -> bool:
        """Whether a thing makes, or is, no more than constants."""
        kind, number = thing
        program = self.program
        if kind == "op":
            return all(program.constant[value] for value in program.values_of(number))
        return bool(program.constant[number if kind == "value" else program.use_value[number]])

    def joint(self, thing: Thing, item: int, other: Thing) -> int:
        """The item of an op whose operand or result has `item`, or the reverse; -1 for none."""
        if "op" not in (thing[0], other[0]) or "use" in (thing[0], other[0]):
            return -1
        (_, op), (_, value) = (thing, other) if thing[0] == "op" else (other, thing)
        program = self.program
        dims = program.def_names(value).tolist()
        if program.value_op[value] != op:
            use = next(use for use in program.uses_of(op) if program.use_value[use] == value)
            dims = program.use_names(use).tolist()
        factors = list(program.factors_of(op))
        have, want = (factors, dims) if thing[0] == "op" else (dims, factors)
        name = have[item]
        return want.index(name) if name >= 0 and name in want else -1

    def _used(self, use: int) -> tuple[str, int, int, int]:
        op, layouts = self._user[use], self.layouts
        if self._moves[op]:
            return self.program.kind(op), -1, -1, int(layouts.use_tensor[use])
        place = use - int(self.program.op_uses[op])
        signature = int(self.program.op_signature[op])
        return self.program.kind(op), signature, place, int(layouts.use_tensor[use])

    def _couplings(self) -> dict[Thing, tuple[Thing, ...]]:
        """Ends of a transfer that have a factor in common, or a buffer."""
        program = self.program
        joined = components(len(program.factor_size), program.links).tolist()
        by_name: defaultdict[int, list[Thing]] = defaultdict(list)
        for thing in self._transferred():
            names = [name for name in self.names(thing) if name >= 0]
            if names:
                by_name[joined[names[0]]].append(thing)
        found = {thing: tuple(things) for things in by_name.values() for thing in things}
        return found | self._sharing()

    def _sharing(self) -> dict[Thing, tuple[Thing, ...]]:
        """Arguments and the results that take over their buffers.

        An argument that is not donated may be fed back all the same. Results of its type and shape
        are then coupled with it.
        """
        program, layouts = self.program, self.layouts
        found: dict[Thing, tuple[Thing, ...]] = {}
        aliased = {argument.aliases for argument in program.arguments}
        free: defaultdict[int, list[Thing]] = defaultdict(list)
        for index, result in enumerate(program.results):
            if index not in aliased:
                free[int(layouts.use_tensor[result.use])].append(("use", result.use))
        for argument in program.arguments:
            tensor = int(layouts.value_tensor[argument.value])
            if argument.aliases >= 0:
                use = program.results[argument.aliases].use
                pair: tuple[Thing, ...] = (("value", argument.value), ("use", use))
                found[pair[0]] = found[pair[1]] = pair
            elif tensor in free:
                free[tensor].append(("value", argument.value))
        for things in free.values():
            found |= {thing: tuple(things) for thing in things}
        return found

    def _transferred(self) -> Iterator[Thing]:
        program = self.program
        for op in np.flatnonzero(self._moves).tolist():
            if program.kind(op) not in (ARGUMENT, RETURN):
                yield from (("value", value) for value in program.values_of(op))
                yield from (("use", use) for use in program.uses_of(op))


def decision_sites(things: SiteMembers, seeds: Iterable[Thing], most: int) -> list[DecisionSite]:
    """The sites of the `seeds`, in their order, then those of their neighbours."""
    found: dict[Hashable, dict[Thing, None]] = {}
    placed: set[Thing] = set()
    level = dict.fromkeys(seeds)
    while level and len(found) < most:
        following: dict[Thing, None] = {}
        for thing in level:
            members = things.with_coupled(thing)
            if placed.intersection(members) or not _can_move(things, members):
                continue
            key = things.key_of(members)
            if key not in found and len(found) >= most:
                continue
            found.setdefault(key, {}).update(dict.fromkeys(members))
            placed.update(members)
            for member in members:
                following.update(dict.fromkeys(things.beside(member)))
        level = {thing: None for thing in following if thing not in placed}
    return [
        DecisionSite(things=tuple(members), names=things.names(next(iter(members))))
        for members in found.values()
    ]


def _can_move(things: SiteMembers, members: Sequence[Thing]) -> bool:
    """Scalars and constants have nothing to move; a transfer moves each of its ends by itself."""
    return any(name >= 0 for name in things.names(members[0])) and not any(
        things.is_constant(member) or (member[0] == "op" and things.is_transfer(member[1]))
        for member in members
    )


def marks(sites: Sequence[Sequence[Thing]], sets: Sequence[Sequence[Thing]] = ()) -> Marks:
    """A mark for each site, and within a site for each of the `sets` in which it has a part."""
    within = {thing: number for number, members in enumerate(sets) for thing in members}
    placed = {thing: number for number, members in enumerate(sites) for thing in members}
    found: dict[str, dict[int, int]] = {"op": {}, "value": {}, "use": {}}
    numbers: dict[tuple[int, int], int] = {}
    for thing in placed | within:
        pair = (placed.get(thing, -1), within.get(thing, -1))
        found[thing[0]][thing[1]] = numbers.setdefault(pair, len(numbers))
    return Marks(ops=found["op"], values=found["value"], uses=found["use"])


def units(evaluator: Evaluator, things: Iterable[Thing]) -> tuple[int, ...]:
    """The units of things that are marked."""
    layouts = evaluator.layouts
    found = set()
    for kind, number in things:
        if kind == "op":
            found.add(int(layouts.op_unit[number]))
        elif kind == "value":
            found.add(int(layouts.value_unit[number]))
        else:
            _, dims = layouts.tensors[int(layouts.use_tensor[number])]
            found.add(bisect_right(layouts.unit_start, dims[0][1]) - 1)
    return tuple(sorted(found))
