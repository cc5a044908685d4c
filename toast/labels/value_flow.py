"""Where values come from and go to, as far as a person would look."""

from __future__ import annotations

from collections import deque
from functools import cached_property

import numpy as np

from toast.analysis.program import ARGUMENT, LOOP_BEGIN, PASSING, Ints, Program
from toast.costmodel.program_facts import Bools, named

CONTRACTIONS = frozenset(
    {
        "stablehlo.dot_general",
        "stablehlo.dot",
        "stablehlo.convolution",
        "stablehlo.gather",
    }
)
FLOWING = PASSING | {LOOP_BEGIN}
"""Ops through which a value is followed, into loops too."""
_CUT = frozenset({"stablehlo.dynamic_slice"})
"""Of these only the first operand is passed on."""
FORWARD_STEPS = 8
BACKWARD_OPS = 200


class ValueFlow:
    """Uses of values and definitions of operands, over the arrays of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._start, self._uses = program.readers
        self._argument = {item.value: number for number, item in enumerate(program.arguments)}

    def uses(self, value: int) -> list[int]:
        """The uses of a value."""
        found: list[int] = self._uses[self._start[value] : self._start[value + 1]].tolist()
        return found

    @cached_property
    def feeding(self) -> Bools:
        """Of each value if a product, a convolution or a gather takes it, at most in another form.

        That is at most `FORWARD_STEPS` ops further.
        """
        program = self._program
        found = np.zeros(program.values, dtype=np.bool_)
        found[program.use_value[named(program, CONTRACTIONS)[program.use_op]]] = True
        source, passed = self._passed()
        for _ in range(FORWARD_STEPS):
            found[source[found[passed]]] = True
        return found

    def _passed(self) -> tuple[Ints, Ints]:
        """Pairs of values of which the second holds what a passing op takes in with the first.

        Of several operands each stands in its place among the values, which a loop has twice.
        """
        program = self._program
        place = np.arange(len(program.use_value)) - program.op_uses[program.use_op]
        cut = named(program, _CUT)[program.use_op] & (place > 0)
        use = np.flatnonzero(named(program, FLOWING)[program.use_op] & ~cut)
        op = program.use_op[use]
        value, operands = program.op_values[op] + place[use], np.diff(program.op_uses)[op]
        pairs = [(use[:0], use[:0])]
        while (there := value < program.op_values[op + 1]).any():
            pairs.append((program.use_value[use[there]], value[there]))
            value = value + operands
        source, passed = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return source, passed

    def nearest_argument(self, value: int) -> int:
        """The argument, by number, that is the fewest ops before a value; -1 where none is near."""
        program, seen, queue = self._program, {value}, deque([value])
        for _ in range(BACKWARD_OPS):
            if not queue:
                break
            current = queue.popleft()
            op = program.makers[current]
            if program.kind(op) == ARGUMENT:
                return self._argument.get(current, -1)
            for source in self._sources(op, current):
                if source not in seen:
                    seen.add(source)
                    queue.append(source)
        return -1

    def _sources(self, op: int, value: int) -> list[int]:
        program = self._program
        sources: list[int] = program.use_value[
            program.op_uses[op] : program.op_uses[op + 1]
        ].tolist()
        if program.kind(op) == LOOP_BEGIN:  # an argument of a region is one initial value
            return [sources[(value - program.op_values[op]) % len(sources)]]
        return sources
