"""Layer groups: which weight each op and value of a program belongs to.

An op belongs to the weight that it reads, at most in another form. What has no weight of its own
belongs to the weight whose gradient it makes, else to the one that was read last before it. A
weight is named by its path with the numbers of layers starred; an optimizer's moments belong to
the weight that they are of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
        self._elements = [program.elements[item.value] for item in program.arguments]
        self._held = {argument.value: n for n, argument in enumerate(program.arguments)}
        self._weight = self._own()
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

    def _own(self) -> list[int]:
        """The chief argument that each op reads, or -1; forms of arguments come into `_held`."""
        program, held = self._program, self._held
        passing = set(program.ops_named(*PASSING))
        carrying = set(program.ops_named(ARGUMENT, LOOP_BEGIN, LOOP_END))
        starts, sources = program.op_uses.tolist(), program.sources
        found, reading = [-1] * program.ops, bytearray(program.ops)
        for value in held:
            self._mark_users(reading, value)
        for op in _marked(reading):
            if op in carrying:
                for value in self._carry(op):
                    self._mark_users(reading, value)
                continue
            operands = sources[starts[op] : starts[op + 1]]
            read = [held[value] for value in operands if value in held]
            if op in passing and operands[0] in held:
                for value in program.values_of(op):
                    held[value] = held[operands[0]]
                    self._mark_users(reading, value)
            ranked = [n for n in read if self._elements[n] > 1]
            found[op] = max(ranked, key=lambda n: (n in self._state, self._elements[n]), default=-1)
        return found

    def _mark_users(self, flags: bytearray, value: int) -> None:
        """Flag the ops that take a value."""
        starts, uses = self._program.readers
        for use in uses[starts[value] : starts[value + 1]].tolist():
            flags[self._program.users[use]] = 1

    def _carry(self, op: int) -> Iterator[int]:
        """The values of a loop's body that hold the arguments that it was begun with."""
        program = self._program
        operands, values = program.uses_of(op), program.values_of(op)
        if program.kind(op) == LOOP_BEGIN and operands:
            for place, value in enumerate(values):
                source = program.sources[operands[place % len(operands)]]
                if source in self._held:
                    self._held[value] = self._held[source]
                    yield value

    def _from_gradients(self) -> None:
        """What ends, through ops that keep its elements, in the update of a weight is its own."""
        program, weight, target = self._program, self._weight, dict[int, int]()
        elementwise = set(program.ops_named(*_ELEMENTWISE))
        keeping = elementwise | set(program.ops_named(*PASSING))
        waiting = bytearray(program.ops)
        for op in elementwise:
            waiting[op] = weight[op] in self._state
        for op in _marked(waiting, backwards=True):
            own = [target[value] for value in program.values_of(op) if value in target]
            if own and weight[op] not in self._state:
                weight[op] = own[0]
            updates = op in elementwise and weight[op] in self._state
            if not updates and not (own and op in keeping):
                continue
            for use in program.uses_of(op):
                value = program.sources[use]
                found = self._updates(op, value) if updates else -1
                if found < 0 and own and self._keeps(op, value):
                    found = own[0]
                if found >= 0:
                    target.setdefault(value, found)
                    waiting[program.makers[value]] = 1

    def _updates(self, op: int, value: int) -> int:
        """The argument of state that an op combines a value of its shape with, or -1."""
        program, found = self._program, self._weight[op]
        if value in self._held:
            return -1
        of = program.arguments[found].value
        return found if program.shape(of) == program.shape(value) else -1

    def _keeps(self, op: int, value: int) -> bool:
        """Whether the only result of an op has as many elements as a value."""
        program = self._program
        made, elements = program.values_of(op), program.elements
        return len(made) == 1 and elements[made[0]] == elements[value]

    def _from_operands(self) -> None:
        """What is left follows the operand that was made last."""
        program, weight = self._program, self._weight
        makers, sources, starts = program.makers, program.sources, program.op_uses.tolist()
        for op in range(program.ops):
            if weight[op] < 0:
                last = op
                for value in sources[starts[op] : starts[op + 1]]:
                    home = makers[value]
                    if weight[home] >= 0 and (home > last or last == op):
                        last = home
                weight[op] = weight[last]


def _marked(flags: bytearray, *, backwards: bool = False) -> Iterator[int]:
    """The places of flags from the first to the last, or backwards; more may be set on the way."""
    at = flags.rfind(1) if backwards else flags.find(1)
    while at >= 0:
        yield at
        at = flags.rfind(1, 0, at) if backwards else flags.find(1, at + 1)


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
    feeding = [flow.feeds_contraction(argument.value) for argument in program.arguments]
    weights: dict[tuple[object, ...], int] = {}
    for number, feeds in enumerate(feeding):
        if feeds:
            for key in _keys(program, number):
                weights.setdefault(key, number)
    found = []
    for number, own in enumerate(feeding):
        chiefs = [] if own else [weights[k] for k in _keys(program, number) if k in weights]
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
