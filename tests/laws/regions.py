"""The numbers of ops as the tree of regions that they stand in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toast.analysis.load import Source


@dataclass(slots=True)
class Node:
    """An op; a loop is its `loop_begin`, a branch its `case_end`.

    `regions` are a loop's condition and body, or a branch's branches; `end` the loop's `loop_end`,
    `ends` the `branch_end` of each branch; `predicate` the value that decides.
    """

    op: int
    regions: list[list[Node]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    end: int = -1
    predicate: int = -1


def tree(source: Source) -> list[Node]:
    """The ops of `main` in order, those of loops and branches inside them."""
    numbers = _value_numbers(source)
    count = len(source.program.arguments)
    nodes = [Node(op=op) for op in range(count)]
    block = source.main.regions[0].blocks[0]
    return nodes + _block(block, _Counter(count), numbers)


@dataclass(slots=True)
class _Counter:
    following: int

    def take(self) -> int:
        self.following += 1
        return self.following - 1


def _block(block: Any, counter: _Counter, numbers: dict[Any, int]) -> list[Node]:
    nodes = []
    for view in block.operations:
        op = view.operation
        if op.name == "stablehlo.while":
            nodes.append(_loop(op, counter, numbers))
        elif op.name in ("stablehlo.case", "stablehlo.if"):
            nodes.append(_branch(op, counter, numbers))
        elif op.name != "stablehlo.return":
            nodes.append(Node(op=counter.take()))
    return nodes


def _loop(op: Any, counter: _Counter, numbers: dict[Any, int]) -> Node:
    node = Node(op=counter.take())
    node.regions = [_block(region.blocks[0], counter, numbers) for region in op.regions]
    node.end = counter.take()
    node.predicate = numbers[_last(op.regions[0]).operands[0]]
    return node


def _branch(op: Any, counter: _Counter, numbers: dict[Any, int]) -> Node:
    regions, ends = [], []
    for region in op.regions:
        regions.append(_block(region.blocks[0], counter, numbers))
        ends.append(counter.take())
    node = Node(op=counter.take(), regions=regions, ends=ends)
    node.predicate = numbers[op.operands[0]]
    return node


def _last(region: Any) -> Any:
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operation


def _value_numbers(source: Source) -> dict[Any, int]:
    return dict(_pairs(source))


def _pairs(source: Source) -> Iterator[tuple[Any, int]]:
    program = source.program
    for op, handle in enumerate(source.handles):
        values = program.values_of(op)
        match program.kind(op):
            case "argument":
                yield handle, values.start
            case "loop_begin":
                inner = [a for region in handle.regions for a in region.blocks[0].arguments]
                yield from zip(inner, values, strict=True)
            case "return" | "branch_end":
                pass
            case _:
                yield from zip(handle.results, values, strict=True)
