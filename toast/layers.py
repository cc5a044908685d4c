"""Layer groups: which weight each op and value of a program belongs to.

An op belongs to the weight that it reads, at most in another form. What has no weight of its own
belongs to the weight whose gradient it makes, else to the one that was read last before it. A
weight is named by its path with the numbers of layers starred; an optimizer's moments belong to
the weight that they are of.
"""

from __future__ import annotations

import math
import re

from analysis.program import ARGUMENT, LOOP_BEGIN, LOOP_END, Program
from toast.dataflow import PASSING, Dataflow
from toast.naming import pattern

NO_GROUP = "(none)"
"""What has to do with no weight at all."""
_STEP = re.compile(r"\[[^\]]*\]|[^\[./]+")
_ELEMENTWISE = frozenset(
    f"stablehlo.{kind}"
    for kind in ("add", "subtract", "multiply", "divide", "select", "negate", "clamp", "convert")
)
"""What gradients pass on their way to an update."""


class Layers:
    """The layer group of each op of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names = _group_names(program)
        self._state = _state_arguments(program)
        self._elements = [math.prod(program.shape(item.value)) for item in program.arguments]
        self._held = {argument.value: n for n, argument in enumerate(program.arguments)}
        self._weight = [self._own(op) for op in range(program.ops)]
        self._from_gradients()
        self._from_operands()

    def of_op(self, op: int) -> str:
        """The name of an op's layer group."""
        argument = self._weight[op]
        return self._names[argument] if argument >= 0 else NO_GROUP

    def of_value(self, value: int) -> str:
        """The name of the layer group that made a value."""
        if value in self._held:
            return self._names[self._held[value]]
        return self.of_op(self._program.makers[value])

    def _own(self, op: int) -> int:
        """The chief argument that an op reads; forms of an argument are passed on in `_held`."""
        program = self._program
        if program.kind(op) in (ARGUMENT, LOOP_BEGIN, LOOP_END):
            self._carry(op)
            return -1
        operands = [program.sources[use] for use in program.uses_of(op)]
        read = [self._held[value] for value in operands if value in self._held]
        if program.kind(op) in PASSING and operands and operands[0] in self._held:
            for value in program.values_of(op):
                self._held[value] = self._held[operands[0]]
        ranked = [n for n in read if self._elements[n] > 1]
        return max(ranked, key=lambda n: (n in self._state, self._elements[n]), default=-1)

    def _carry(self, op: int) -> None:
        """A loop's body holds the arguments that it was begun with."""
        program = self._program
        operands, values = program.uses_of(op), program.values_of(op)
        if program.kind(op) == LOOP_BEGIN and operands:
            for place, value in enumerate(values):
                source = program.sources[operands[place % len(operands)]]
                if source in self._held:
                    self._held[value] = self._held[source]

    def _from_gradients(self) -> None:
        """What ends, through ops that keep its elements, in the update of a weight is its own."""
        program = self._program
        target: dict[int, int] = {}
        for op in range(program.ops - 1, -1, -1):
            own = [target[value] for value in program.values_of(op) if value in target]
            if own and self._weight[op] not in self._state:
                self._weight[op] = own[0]
            for use in program.uses_of(op):
                value = program.sources[use]
                found = self._updates(op, value)
                if found < 0 and own and self._keeps(op, value):
                    found = own[0]
                if found >= 0:
                    target.setdefault(value, found)

    def _updates(self, op: int, value: int) -> int:
        """The argument of state that an op combines a value of its shape with, or -1."""
        program = self._program
        if program.kind(op) not in _ELEMENTWISE:
            return -1
        found = self._weight[op]
        if found not in self._state or value in self._held:
            return -1
        of = program.arguments[found].value
        return found if program.shape(of) == program.shape(value) else -1

    def _keeps(self, op: int, value: int) -> bool:
        program = self._program
        made, kind = program.values_of(op), program.kind(op)
        if len(made) != 1 or not (kind in _ELEMENTWISE or kind in PASSING):
            return False
        return math.prod(program.shape(made[0])) == math.prod(program.shape(value))

    def _from_operands(self) -> None:
        """What is left follows the operand that was made last."""
        program = self._program
        for op in range(program.ops):
            if self._weight[op] < 0:
                homes = sorted(
                    (program.makers[program.sources[use]] for use in program.uses_of(op)),
                    reverse=True,
                )
                known = (self._weight[home] for home in homes if self._weight[home] >= 0)
                self._weight[op] = next(known, -1)


def _state_arguments(program: Program) -> frozenset[int]:
    """Arguments with a result of their shape and type: weights, moments, caches."""
    results = {
        (program.shape(value), program.dtype(value))
        for value in (program.sources[result.use] for result in program.results)
    }
    return frozenset(
        number
        for number, argument in enumerate(program.arguments)
        if (program.shape(argument.value), program.dtype(argument.value)) in results
    )


def _group_names(program: Program) -> list[str]:
    """The name of each argument's group; that of moments is their weight's."""
    flow = Dataflow(program)
    weights: dict[tuple[object, ...], int] = {}
    for number, argument in enumerate(program.arguments):
        if flow.feeds_contraction(argument.value):
            for key in _keys(program, number):
                weights.setdefault(key, number)
    found = []
    for number, argument in enumerate(program.arguments):
        own = flow.feeds_contraction(argument.value)
        chiefs = [weights[key] for key in _keys(program, number) if key in weights and not own]
        found.append(pattern(program.arguments[chiefs[0] if chiefs else number].name))
    return found


def _keys(program: Program, number: int) -> list[tuple[object, ...]]:
    """The path of an argument with one step left out, for each of its leading steps."""
    argument = program.arguments[number]
    steps = _STEP.findall(argument.name)
    shape = program.shape(argument.value)
    return [
        (shape, index, *steps[:index], *steps[index + 1 :])
        for index, step in enumerate(steps[:-1])
        if not any(letter.isdigit() for letter in step)
    ]
