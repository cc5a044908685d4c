"""The ops of a `main` without calls, read once: control flow as blocks within nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toast.analysis.operations import BRANCHING

WHILE = "stablehlo.while"
_ENDS = frozenset({"stablehlo.return", "func.return", "sdy.return"})


@dataclass(slots=True, kw_only=True, eq=False)
class OpNode:
    """An op. `captured` are values from outside that ops in its regions read."""

    op: Any
    name: str
    operands: list[Any]
    results: list[Any]
    blocks: list[Block] = field(default_factory=list)
    captured: list[Any] = field(default_factory=list)

    @property
    def read(self) -> list[Any]:
        """All values that the op reads."""
        return self.operands + self.captured


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
    """The ops of a block, its arguments and what it yields."""

    arguments: list[Any]
    nodes: list[OpNode]
    yields: list[Any]


def read_block(block: Any) -> Block:
    """A block of the program, with the blocks of loops and branches within."""
    nodes: list[OpNode] = []
    yields: list[Any] = []
    for view in block.operations:
        op = view.operation
        if op.name in _ENDS:
            yields = list(op.operands)
        else:
            nodes.append(read_node(op))
    return Block(arguments=list(block.arguments), nodes=nodes, yields=yields)


def read_node(op: Any) -> OpNode:
    """An op, with the blocks of a loop or branch."""
    name = op.name
    node = OpNode(op=op, name=name, operands=list(op.operands), results=list(op.results))
    if name == WHILE or name in BRANCHING:
        node.blocks = [read_block(region.blocks[0]) for region in op.regions]
        node.captured = _captured(node.blocks)
    elif len(op.regions):
        parts = [read_block(block) for region in op.regions for block in region.blocks]
        node.captured = _captured(parts)
    return node


def _captured(blocks: list[Block]) -> list[Any]:
    """What ops in blocks read of what none of the blocks defines, each value once."""
    defined: set[Any] = set()
    read: dict[Any, None] = {}
    for block in blocks:
        defined.update(block.arguments)
        for node in block.nodes:
            defined.update(node.results)
            read |= dict.fromkeys(node.read)
        read |= dict.fromkeys(block.yields)
    return [value for value in read if value not in defined]
