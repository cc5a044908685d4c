"""Where the ops of a program stand in a module whose calls are left as they are.

A program counts the ops of a function once for each call of it. A *site* is a place in a function
that one op of the program stands for; a call that is told by the way it takes through the calls, an
*instance*, has a site of its function for each of its ops.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import callee_of, functions_of
from toast.analysis.manual import MANUAL
from toast.analysis.operations import BRANCHING

LOOP = "stablehlo.while"
Path = tuple[int, ...]
"""The way to an instance: the number of a call among the entries of each function, from `main`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in a function: `values` are what it defines, `user` the op whose operands it uses.

    Both are absent for what stands for a part of a `shard_map` region, which is left as it is.
    """

    values: tuple[Any, ...] = ()
    user: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """A call of a function."""

    op: Any
    callee: str


@dataclass(slots=True)
class Sites:
    """The sites of the functions of a module, for a `main` that is read with its calls inlined."""

    module: ir.Module
    _functions: dict[str, ir.Operation] = field(init=False)
    _entries: dict[str, list[Site | CallSite]] = field(default_factory=dict)
    _starts: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions = functions_of(self.module)

    @property
    def ops(self) -> int:
        """How many ops the program has."""
        return self._size("main")

    def function(self, name: str) -> ir.Operation:
        """The function of this name."""
        return self._functions[name]

    def names(self) -> set[str]:
        """The names of all functions."""
        return set(self._functions)

    def entries(self, name: str) -> list[Site | CallSite]:
        """The sites of a function and its calls, in order."""
        if name not in self._entries:
            found = entries_of(self._functions[name], main=name == "main")
            starts = [0]
            for entry in found:
                size = self._size(entry.callee) if isinstance(entry, CallSite) else 1
                starts.append(starts[-1] + size)
            self._entries[name], self._starts[name] = found, starts
        return self._entries[name]

    def locate(self, op: int) -> tuple[Path, int]:
        """The instance that an op of the program stands in, and its site there, by number."""
        path, name = list[int](), "main"
        while True:
            entries = self.entries(name)
            number = bisect_right(self._starts[name], op) - 1
            entry = entries[number]
            if isinstance(entry, Site):
                return tuple(path), number
            op -= self._starts[name][number]
            path.append(number)
            name = entry.callee

    def _size(self, name: str) -> int:
        self.entries(name)
        return self._starts[name][-1]


def entries_of(function: ir.Operation, *, main: bool) -> list[Site | CallSite]:
    """The sites of a function and its calls, in the order of `toast.analysis.flatten`."""
    block = function.regions[0].blocks[0]
    arguments = [Site(values=(argument,)) for argument in block.arguments] if main else []
    return [*arguments, *_block(block, main=main)]


def _block(block: Any, *, main: bool) -> Iterator[Site | CallSite]:
    for view in block.operations:
        op = view.operation
        name, callee = op.name, callee_of(op)
        if callee is not None:
            yield CallSite(op=op, callee=callee)
        elif name == LOOP:
            yield from _loop(op, main=main)
        elif name in BRANCHING:
            for region in op.regions:
                yield from _block(region.blocks[0], main=main)
                yield Site(user=_last(region))
            yield Site(values=tuple(op.results), user=op)
        elif name == MANUAL:
            yield from [Site()] * (len(op.operands) + 1 + len(op.results))
        elif name == "func.return":
            if main:
                yield Site(user=op)
        elif name != "stablehlo.return":
            yield Site(values=tuple(op.results), user=op)


def _loop(op: Any, *, main: bool) -> Iterator[Site | CallSite]:
    inner = [argument for region in op.regions for argument in region.blocks[0].arguments]
    yield Site(values=tuple(inner), user=op)
    for region in op.regions:
        yield from _block(region.blocks[0], main=main)
    yield Site(values=tuple(op.results), user=_last(op.regions[1]))


def _last(region: Any) -> Any:
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operation
