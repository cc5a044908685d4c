"""The groups of layers of a program that can be recomputed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toast.recompute.block import BlockOps
from toast.recompute.directions import Direction, Directions
from toast.recompute.layers import named_layers
from toast.recompute.loops import Loop
from toast.recompute.names import line_of
from toast.recompute.ops import shape_of
from toast.recompute.origins import origins, passed_into
from toast.recompute.repeats import repeated_layers
from toast.recompute.scans import Scan
from toast.recompute.unrolled import Unrolled

_WHILE = "stablehlo.while"
_FEWEST = 2
"""Turns of a loop that make it one of repeated layers."""

Group = Unrolled | Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Looks through the blocks of a program, the outer ones first."""

    directions: Directions

    def groups(self, block: Any, given: Mapping[Any, str]) -> Iterator[Group]:
        """The groups of a block and of the loops in it; `given` names arguments of the block."""
        ops = BlockOps.of(block)
        passes = self._passes(ops)
        names = origins(ops, given)
        scans = list(self._scans(ops, passes, names))
        repeated = named_layers(ops, passes, names) or repeated_layers(ops, passes)
        layers = [Unrolled(block=ops, passes=passes, layers=one) for one in repeated]
        yield from _best(layers, scans)
        for op in ops.ops:
            if op.name == _WHILE:
                yield from self.groups(op.regions[1].blocks[0], passed_into(op, names))

    def _passes(self, ops: BlockOps) -> list[Direction]:
        """The pass of each op; what has no name is of the pass that it stands in."""
        named = [self.directions.of(op) for op in ops.ops]
        before = Direction.NEITHER
        behind = _next_named(named)
        for place, own in enumerate(named):
            if own != Direction.NEITHER:
                before = own
            elif before == behind[place]:
                named[place] = before
        return named

    def _scans(
        self, ops: BlockOps, passes: Sequence[Direction], names: Mapping[Any, str]
    ) -> Iterator[Scan]:
        """Pairs of loops of which the second reads what the first stacks, in the block itself."""
        loops = {op.results[0]: Loop(op) for op in ops.ops if op.name == _WHILE and op.results}
        for result, loop in loops.items():
            if loop.turns < _FEWEST:
                continue
            for reader in _readers(loop, loops):
                scan = Scan(
                    name=_common(list(_weights(loop, names))) or _loop_name(loop),
                    place=ops.made[result],
                    forward=loop,
                    backward=reader,
                )
                direction = passes[ops.made[reader.op.results[0]]]
                if scan.read_back and (
                    direction == Direction.BACKWARD
                    or (direction == Direction.NEITHER and scan.is_mirrored)
                ):
                    yield scan


def _next_named(named: Sequence[Direction]) -> list[Direction]:
    """For each op the pass of the next op that has one."""
    found, behind = [Direction.NEITHER] * len(named), Direction.NEITHER
    for place in range(len(named) - 1, -1, -1):
        if named[place] != Direction.NEITHER:
            behind = named[place]
        found[place] = behind
    return found


def _best(layers: Sequence[Unrolled], scans: Sequence[Scan]) -> list[Group]:
    """Of groups that share ops those that gain most; none that gains nothing."""
    gains: dict[Group, int] = {}
    for scan in scans:
        gains[scan] = scan.gain()
    for one in layers:
        inner = sum(gains[scan] for scan in scans if scan.place in one.places)
        gain = one.gain()
        if gain > inner:
            gains[one] = gain
    found: list[Group] = []
    for group in sorted(gains, key=lambda one: -gains[one]):
        apart = all(_apart(group.places, other.places) for other in found)
        if gains[group] > 0 and apart:
            found.append(group)
    return sorted(found, key=lambda one: one.places.start)


def _apart(one: range, other: range) -> bool:
    return one.stop <= other.start or other.stop <= one.start


def _readers(loop: Loop, loops: Mapping[Any, Loop]) -> list[Loop]:
    """The other loops that read results of a loop, each once."""
    found: dict[Any, Loop] = {}
    for result in loop.op.results:
        for use in result.uses:
            user = use.owner.operation
            if user.name == _WHILE and user.results[0] in loops:
                found[user.results[0]] = loops[user.results[0]]
    return list(found.values())


def _weights(loop: Loop, names: Mapping[Any, str]) -> Iterator[str]:
    """The arguments of which each turn takes its own element."""
    for slot, operand in enumerate(loop.op.operands):
        per_turn = shape_of(operand)[:1] == (loop.turns,) and loop.is_invariant(slot)
        if per_turn and operand in names:
            yield names[operand]


def _common(paths: Sequence[str]) -> str:
    """The steps that all paths begin with."""
    columns = zip(*(path.split("/") for path in paths), strict=False)
    same = itertools.takewhile(lambda column: len(set(column)) == 1, columns)
    return "/".join(column[0] for column in same)


def _loop_name(loop: Loop) -> str:
    line = line_of(loop.op.location)
    return f"loop at {line}" if line else "loop"
