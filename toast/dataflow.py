"""Where values come from and go to, as far as a person would look."""

from __future__ import annotations

from collections import deque

from analysis.program import ARGUMENT, LOOP_BEGIN, Program

CONTRACTIONS = frozenset(
    {
        "stablehlo.dot_general",
        "stablehlo.dot",
        "stablehlo.convolution",
        "stablehlo.gather",
    }
)
PASSING = frozenset(
    {
        LOOP_BEGIN,
        "stablehlo.broadcast_in_dim",
        "stablehlo.convert",
        "stablehlo.dynamic_slice",
        "stablehlo.optimization_barrier",
        "stablehlo.reshape",
        "stablehlo.slice",
        "stablehlo.transpose",
    }
)
FORWARD_STEPS = 8
BACKWARD_OPS = 200


class Dataflow:
    """Uses of values and definitions of operands, over the arrays of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._start, self._uses = program.readers
        self._argument = {item.value: number for number, item in enumerate(program.arguments)}

    def uses(self, value: int) -> list[int]:
        """The uses of a value."""
        found: list[int] = self._uses[self._start[value] : self._start[value + 1]].tolist()
        return found

    def feeds_contraction(self, value: int, steps: int = FORWARD_STEPS) -> bool:
        """Whether a product, a convolution or a gather takes it, at most in another form."""
        program = self._program
        for use in self.uses(value):
            op = program.users[use]
            kind = program.kind(op)
            if kind in CONTRACTIONS:
                return True
            if kind in PASSING and steps > 0:
                for passed in self._passed(op, use):
                    if self.feeds_contraction(passed, steps - 1):
                        return True
        return False

    def _passed(self, op: int, use: int) -> list[int]:
        """The values that hold what a passing op takes in at a use."""
        operands, values = self._program.uses_of(op), self._program.values_of(op)
        position = use - operands.start
        if self._program.kind(op) == "stablehlo.dynamic_slice":
            return list(values) if position == 0 else []
        return list(values[position :: len(operands)])

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
