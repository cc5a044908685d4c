"""A small parser of HLO text: computations, instructions, operands and attributes.

Reads what `HloModule::ToString` writes for a scheduled module. Types are kept as their array
leaves; layouts, tilings and memory spaces are dropped. Attributes are split when they are asked
for, because most of an optimised module's text is attributes that nobody reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from toast.analysis.errors import InvalidModule

_BITS = re.compile(r"\d+")
_LEAF = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<=]*)\]")
_START = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*|\{.*)\{\s*$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_REFERENCE = re.compile(r"%([\w.\-]+)|(?:^|[\s,])([A-Za-z_][\w.\-]*)(?=,|$)")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One array: element type and dimensions."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size without padding; `pred` is a byte, tokens and opaque values are nothing."""
        return math.prod(self.dims) * _bits(self.dtype) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    `shapes` are the leaves of its type, `operands` names within its computation, `inside` the raw
    text between its parentheses, `tail` that of its attributes.
    """

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    inside: str
    tail: str
    root: bool

    @property
    def bytes(self) -> int:
        """Bytes of all leaves of the result."""
        return sum(shape.bytes for shape in self.shapes)

    def attributes(self) -> dict[str, str]:
        """Its attributes as written, by name."""
        pairs = (part.partition("=") for part in split_top(self.tail))
        return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}

    def called(self, *names: str) -> tuple[str, ...]:
        """The computations that an attribute such as `calls` or `body` names."""
        found: list[str] = []
        for name in names:
            for match in re.finditer(rf"(?:^|[ ,]){name}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.tail):
                found += [part.strip().lstrip("%") for part in match[1].strip("{}").split(",")]
        return tuple(name for name in found if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Instructions in schedule order, and by name."""

    name: str
    instructions: tuple[Instruction, ...]
    by_name: dict[str, Instruction]

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return next(i for i in reversed(self.instructions) if i.root)

    def operand(self, instruction: Instruction, index: int) -> Instruction | None:
        """The instruction behind an operand, or None."""
        if index >= len(instruction.operands):
            return None
        return self.by_name.get(instruction.operands[index])

    def operand_bytes(self, instruction: Instruction) -> int:
        """Bytes of all operands together."""
        known = (self.by_name.get(name) for name in instruction.operands)
        return sum(operand.bytes for operand in known if operand is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HloModule:
    """A parsed module; `entry` is the computation that runs."""

    entry: Computation
    computations: dict[str, Computation]


def parse(text: str) -> HloModule:
    """Read HLO text; raises `InvalidModule` where there is no entry computation."""
    computations: dict[str, Computation] = {}
    entry: Computation | None = None
    name, is_entry = "", False
    rows: list[Instruction] = []
    for line in text.splitlines():
        if not line or line[0] in " \t":
            instruction = _instruction(line) if name and line else None
            if instruction is not None:
                rows.append(instruction)
        elif line[0] == "}" and name:
            computation = _computation(name, rows)
            computations[name] = computation
            entry = computation if is_entry else entry
            name, rows = "", []
        elif (header := _HEADER.match(line)) and not line.startswith("HloModule"):
            is_entry, name, rows = header[1] is not None, header[2], []
    if entry is None:
        raise InvalidModule("The HLO text has no entry computation.", "It may be truncated.")
    return HloModule(entry=entry, computations=computations)


def split_top(text: str) -> Iterator[str]:
    """The parts of `text` between commas that stand outside brackets and quotes."""
    depth, quoted, start, skip = 0, False, 0, False
    for index, character in enumerate(text):
        if skip:
            skip = False
        elif quoted:
            skip = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _bits(dtype: str) -> int:
    if dtype == "pred":
        return 8
    if dtype in ("token", "opaque"):
        return 0
    digits = _BITS.search(dtype)
    return int(digits[0]) if digits else 8


def _computation(name: str, rows: list[Instruction]) -> Computation:
    by_name = {row.name: row for row in rows}
    return Computation(name=name, instructions=tuple(rows), by_name=by_name)


def _instruction(line: str) -> Instruction | None:
    start = _START.match(line)
    if start is None:
        return None
    at = start.end()
    type_end = _closing(line, at) + 1 if line[at] == "(" else line.find(" ", at)
    opcode = _OPCODE.match(line, type_end)
    if opcode is None:
        return None
    close = _closing(line, opcode.end() - 1)
    inside = line[opcode.end() : close]
    literal = opcode[1] in ("constant", "parameter")
    return Instruction(
        name=start[2],
        opcode=opcode[1],
        shapes=tuple(_shapes(line[at:type_end])),
        operands=() if literal else _operands(inside),
        inside=inside,
        tail=line[close + 1 :].lstrip(", "),
        root=start[1] is not None,
    )


def _closing(line: str, opening: int) -> int:
    """Where the bracket that opens at `opening` closes; the line's end if it does not."""
    depth = 0
    for match in re.compile(r"[()]").finditer(line, opening):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(line)


def _shapes(text: str) -> Iterator[Shape]:
    for match in _LEAF.finditer(text):
        dims = match[2].replace("<=", "")
        sizes = tuple(int(part) for part in dims.split(",") if part)
        yield Shape(dtype=match[1], dims=sizes)


def _operands(inside: str) -> tuple[str, ...]:
    if "%" in inside:
        return tuple(re.findall(r"%([\w.\-]+)", inside))
    return tuple(part.split()[-1] for part in split_top(inside) if part.strip())
