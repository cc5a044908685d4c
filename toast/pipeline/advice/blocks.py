"""Repeated blocks of the forward pass: where one ends and the next begins.

A block is all that is computed with the weights of one layer, `params/layers/3`. Between the last
op that reads a weight of one layer and the first that reads one of the next, the cut is where the
fewest bytes are handed on: in a transformer that is the residual stream.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from toast.analysis.program import PASSING, Ints, Program
from toast.costmodel.program_facts import Bools
from toast.labels.labels import Labels
from toast.labels.value_flow import ValueFlow
from toast.request.patterns import path

_DIGITS = re.compile(r"\d+")
Bytes = Callable[[int], float]
"""The bytes of a value on one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The two passes of a training step, by the names that jax gives its ops.

    Of each op when it runs (`position`), and of which pass it is; of each value when it is `made`,
    its last use in the forward pass and its first in the backward pass.
    """

    position: Ints
    forward: Bools
    backward: Bools
    made: Ints
    last_forward: Ints
    first_backward: Ints

    @property
    def never(self) -> int:
        """The first use of what the backward pass does not use: later than everything."""
        return len(self.position) + 1

    @classmethod
    def of(cls, program: Program, position: Ints, say: Labels) -> Passes:
        """The passes of a program; an op of neither is of none."""
        told = [say.direction(op) for op in range(program.ops)]
        forward = np.array([one == "forward" for one in told], dtype=np.bool_)
        backward = np.array([one == "backward" for one in told], dtype=np.bool_)
        user, value = program.use_op, program.use_value
        last = np.full(program.values, -1)
        there = forward[user]
        np.maximum.at(last, value[there], position[user[there]])
        first = np.full(program.values, program.ops + 1)  # as `never`
        there = backward[user]
        np.minimum.at(first, value[there], position[user[there]])
        return cls(
            position=position,
            forward=forward,
            backward=backward,
            made=position[program.value_op],
            last_forward=last,
            first_backward=first,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Repeated blocks of one name: number k is computed in (cuts[k], cuts[k + 1]]."""

    name: str
    cuts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.cuts) - 1


def repeated_blocks(program: Program, passes: Passes, size: Bytes) -> list[Blocks]:
    """The repeated blocks of a program, outer ones only."""
    reads = _reads(program, passes)
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, positions in enumerate(reads):
        steps = path(program.arguments[number].name).split("/")
        for place, step in enumerate(steps[1:], 1):
            if positions and _DIGITS.search(step):
                block = "/".join(steps[: place + 1])
                pattern = "/".join([*steps[:place], _DIGITS.sub("*", step)])
                members[pattern][block] += positions
    everything = np.unique(np.array([p for positions in reads for p in positions], dtype=np.int64))
    found: list[Blocks] = []
    for pattern in sorted(members, key=lambda one: one.count("/")):
        spans = sorted((min(all_), max(all_)) for all_ in members[pattern].values())
        apart = all(a[1] < b[0] for a, b in itertools.pairwise(spans))
        inner = any(_within(pattern, other.name) for other in found)
        if len(spans) > 1 and apart and not inner:
            cuts = _cuts(program, passes, spans, everything, size)
            found.append(Blocks(name=pattern, cuts=cuts))
    return found


def _within(pattern: str, outer: str) -> bool:
    starred = _DIGITS.sub("*", pattern)
    return starred.startswith(f"{_DIGITS.sub('*', outer)}/")


def _reads(program: Program, passes: Passes) -> list[list[int]]:
    """For each argument when the forward pass reads it, at most in another form."""
    flow = ValueFlow(program)
    found = []
    for argument in program.arguments:
        positions, stack = [], [argument.value]
        while stack:
            for use in flow.uses(stack.pop()):
                op = program.user(use)
                if program.kind(op) in PASSING:
                    stack += program.values_of(op)
                elif passes.forward[op]:
                    positions.append(int(passes.position[op]))
        found.append(positions)
    return found


def _cuts(
    program: Program,
    passes: Passes,
    spans: Sequence[tuple[int, int]],
    everything: Ints,
    size: Bytes,
) -> tuple[int, ...]:
    """Where the blocks begin and end: before the first, between any two, after the last."""
    before = everything[everything < spans[0][0]]
    after = everything[everything > spans[-1][1]]
    end = int(passes.position[passes.forward].max()) + 1
    windows = [
        (int(before[-1]) if len(before) else -1, spans[0][0]),
        *((one[1], other[0]) for one, other in itertools.pairwise(spans)),
        (spans[-1][1], int(after[0]) if len(after) else end),
    ]
    return tuple(_narrowest(program, passes, window, size) for window in windows)


def _narrowest(program: Program, passes: Passes, window: tuple[int, int], size: Bytes) -> int:
    """The position in [a, b) behind which the forward pass needs the fewest bytes made before."""
    a, b = window
    made, last = passes.made, passes.last_forward
    crossing = (made < b) & (last > a) & passes.forward[program.value_op] & ~program.constant
    width = np.zeros(max(b - a, 1) + 1)
    for value in np.flatnonzero(crossing).tolist():
        first, end = max(int(made[value]), a), min(int(last[value]), b)
        if first < end:
            width[first - a] += size(value)
            width[end - a] -= size(value)
    return a + int(np.argmin(np.cumsum(width)[: max(b - a, 1)]))
