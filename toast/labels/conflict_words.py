"""Conflicts and the resolutions of compatibility sets, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from toast.analysis.analyse import Analysis
from toast.analysis.load import Source
from toast.analysis.locations import Locations
from toast.analysis.program import Ints, Program
from toast.labels.name_stack import EINSUM, NameStack, telling_part
from toast.labels.value_flow import ValueFlow

DOT = "stablehlo.dot_general"
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWords:
    """What a set decides: in one line, and each of its two resolutions; where it arises."""

    description: str
    resolutions: tuple[str, str]
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensor:
    """A definition or a use at an op, and the names of its dimensions."""

    role: str
    value: int
    names: Ints


class ConflictWords:
    """Speaks of the ops and names of one analysed module."""

    def __init__(self, source: Source, analysis: Analysis) -> None:
        self.locations = Locations(source)
        self._program: Program = source.program
        self._conflicts = analysis.conflicts
        self._flow = ValueFlow(source.program)
        self._lines: dict[int, str] = {}

    def line(self, op: int) -> str:
        """The source line of an op, or ''; without one, the line of the module's own text."""
        if op not in self._lines:
            found = self.locations[op].line
            self._lines[op] = "module" + found[1:] if found.startswith("-:") else found
        return self._lines[op]

    def tensor(self, op: int, names: Sequence[int]) -> NamedTensor:
        """The first tensor of an op, results before operands, that carries all of `names`."""
        found = tensors(self._program, op)
        return next(item for item in found if all(name in item.names for name in names))

    def dimension(self, op: int, name: int, tensor: NamedTensor) -> str:
        """`dimension 2 (s)`, with the letter of the einsum where there is one."""
        position = tensor.names.tolist().index(name)
        letter = self.letters(op).get(name)
        return f"dimension {position}" + (f" ({letter})" if letter else "")

    def shape(self, tensor: NamedTensor) -> str:
        """`result [8, 16]`."""
        return f"{tensor.role} {list(self._program.shape(tensor.value))}"

    def letters(self, op: int) -> dict[int, str]:
        """The einsum letter of each name of a product; empty where it came from no einsum."""
        text = self.locations[op].label
        match = EINSUM.search(text)
        if match is None or self._program.kind(op) != DOT or "transpose(" in text:
            return {}
        operands = [self._program.use_names(use).tolist() for use in self._program.uses_of(op)]
        for sides in ((match[1], match[2]), (match[2], match[1])):
            found = _matched(operands, sides)
            if found:
                return found
        return {}

    def place(self, op: int) -> str:
        """The scope or the function that an op is in, and the helper; else its kind.

        `attn/query` are scopes, `attention/softmax` a function and what it calls.
        """
        location = self.locations[op]
        stack = NameStack.parse(location.label)
        scope = "/".join(stack.scopes[-2:])
        called = stack.helper or ("" if scope else telling_part(location.callee))
        parts = [scope or telling_part(location.function), called]
        return "/".join(filter(None, parts)) or self._program.kind(op).removeprefix("stablehlo.")

    def of_set(self, members: Sequence[int], isomorphic: int) -> SetWords:
        """What a set decides; `members` are its conflicts, `isomorphic` counts the sets like it."""
        index = self._origin(members)
        conflict, side = self._conflicts.all[index], int(self._conflicts.side[index])
        op, pair = conflict.op, conflict.names[:: -1 if side else 1]
        tensor = self.tensor(op, pair)
        dims = [self.dimension(op, name, tensor) for name in pair]
        kind = self._program.kind(op).removeprefix("stablehlo.")
        equation = EINSUM.search(self.locations[op].label)
        what = f"{kind} {equation[0]}" if equation else kind
        roles = self._roles(op, pair)
        where = self.place(op)
        places = f"{_count(isomorphic, 'place')} ({_count(isomorphic * len(members), 'conflict')})"
        if roles:
            lead = f"shard the {roles[0]} or the {roles[1]} side of {where}"
            says = [f"the {role} side: {dim}" for role, dim in zip(roles, dims, strict=True)]
        else:
            inside = "" if where == kind else f" in {where}"
            lead = f"shard {dims[0]} or {dims[1]} of the {tensor.role} of {what}{inside}"
            says = dims
        at = self.line(op)
        tail = f" of the {self.shape(tensor)} of {what}" + (f" at {short(at)}" if at else "")
        first, second = (say + tail for say in says)
        return SetWords(description=f"{lead}, {places}", resolutions=(first, second), location=at)

    def _origin(self, members: Sequence[int]) -> int:
        """The conflict that tells most: where two operands of a product meet, forward first."""

        def rank(index: int) -> tuple[bool, bool, int]:
            conflict = self._conflicts.all[index]
            meets = self._program.kind(conflict.op) == DOT and bool(
                self._sides(conflict.op, conflict.names)
            )
            backward = meets and "transpose(" in self.locations[conflict.op].label
            return (not meets, backward, index)

        return min(members, key=rank)

    def _sides(self, op: int, pair: Sequence[int]) -> list[int]:
        """The operands of an op, one for each name, where each name is of one operand only."""
        found = []
        for name in pair:
            uses = self._program.uses_of(op)
            holding = [use for use in uses if name in self._program.use_names(use)]
            if len(holding) != 1:
                return []
            found.append(self._program.sources[holding[0]])
        return found if found[0] != found[1] else []

    def _roles(self, op: int, pair: Sequence[int]) -> tuple[str, str] | None:
        """What the two operands are called, after the weights that they were made with."""
        sides = self._sides(op, pair) if self._program.kind(op) == DOT else []
        nearest = [self._flow.nearest_argument(value) for value in sides]
        if not nearest or -1 in nearest:
            return None
        first, second = (self._program.arguments[number].name for number in nearest)
        return differing(first, second)


def tensors(program: Program, op: int) -> list[NamedTensor]:
    """The results and then the operands of an op."""
    values, uses = program.values_of(op), program.uses_of(op)
    made = [
        NamedTensor(
            role=_nth("result", i, len(values)), value=value, names=program.def_names(value)
        )
        for i, value in enumerate(values)
    ]
    taken = [
        NamedTensor(
            role=_nth("operand", i, len(uses)),
            value=program.sources[use],
            names=program.use_names(use),
        )
        for i, use in enumerate(uses)
    ]
    return made + taken


def differing(first: str, second: str) -> tuple[str, str] | None:
    """The last words in which two argument paths of one shape differ: ('query', 'key')."""
    left, right = _WORD.findall(first), _WORD.findall(second)
    if len(left) != len(right):
        return None
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    return pairs[-1] if pairs else None


@lru_cache(maxsize=4096)
def short(location: str) -> str:
    """A source line without the folders of its file."""
    return PurePath(location).name


def _matched(operands: Sequence[Sequence[int]], sides: Sequence[str]) -> dict[int, str]:
    """Letters by name, where every operand has the rank of its side and no name two letters."""
    found: dict[int, str] = {}
    for names, letters in zip(operands, sides, strict=True):
        if len(names) != len(letters):
            return {}
        for name, letter in zip(names, letters, strict=True):
            if found.setdefault(name, letter) != letter:
                return {}
    return found if len(set(found.values())) == len(found) else {}


def _nth(role: str, index: int, count: int) -> str:
    return role if count == 1 else f"{role} {index}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
