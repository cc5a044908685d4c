"""Layer groups: which weight each op and value of a program belongs to.

An op belongs to the weight that it reads, at most in another form. What has no weight of its own
belongs to the weight whose gradient it makes, else to the one that was read last before it. A
weight is named by its path with the numbers of layers starred; an optimizer's moments belong to
the weight that they are of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from toast.analysis.owners import owners
from toast.analysis.program import Ints, Program
from toast.labels.value_flow import FLOWING, ValueFlow
from toast.request.patterns import layer_patterns, path

NO_GROUP = "(none)"
"""What has to do with no weight at all."""
ROOT_STEPS = 2
"""The steps before the path that a weight shares with its moments, at most: `state.params`."""
_ELEMENTWISE = frozenset(
    f"stablehlo.{kind}"
    for kind in ("add", "subtract", "multiply", "divide", "select", "negate", "clamp", "convert")
)
"""What gradients pass on their way to an update."""


class Layers:
    """The layer group of each op of one program."""

    def __init__(self, program: Program) -> None:
        self._names = group_names(program)
        state = np.zeros(len(program.arguments), dtype=np.bool_)
        state[list(state_arguments(program))] = True
        self._owner, self._held = owners(program, state, FLOWING, _ELEMENTWISE)
        known: dict[str, int] = {}
        numbers = [known.setdefault(name, len(known)) for name in (*self._names, NO_GROUP)]
        self._numbers = np.array(numbers, dtype=np.int64)  # that of none, -1, is the last
        self._makers = program.makers

    def argument_of(self, value: int) -> int:
        """The argument, by number, that a value is a form of; -1 where it is more than that."""
        return int(self._held[value])

    def owner_of(self, op: int) -> int:
        """The argument, by number, that an op belongs to, or -1."""
        return int(self._owner[op])

    def of_op(self, op: int) -> str:
        """The name of an op's layer group."""
        argument = self._owner[op]
        return self._names[argument] if argument >= 0 else NO_GROUP

    def numbers(self, ops: Ints) -> Ints:
        """The number of the layer group of each of some ops, equal for equal names."""
        return self._numbers[self._owner[ops]]

    def of_value(self, value: int) -> str:
        """The name of the layer group that made a value."""
        held = self._held[value]
        return self._names[held] if held >= 0 else self.of_op(self._makers[value])


def state_arguments(program: Program) -> frozenset[int]:
    """Arguments with a result of their shape and type: weights, moments, caches."""
    kinds = program.value_shape * len(program.dtypes) + program.value_type
    results = program.use_value[[result.use for result in program.results]]
    arguments = [argument.value for argument in program.arguments]
    found = np.flatnonzero(np.isin(kinds[arguments], kinds[results]))
    return frozenset(found.tolist())


def argument_patterns(program: Program) -> list[str]:
    """The path of each argument with the numbers of repeated layers starred."""
    return _patterns(program, ((one.name, one.value) for one in program.arguments))


def result_patterns(program: Program) -> list[str]:
    """The path of each result with the numbers of repeated layers starred."""
    sources = program.sources
    return _patterns(program, ((one.name, sources[one.use]) for one in program.results))


def _patterns(program: Program, rows: Iterable[tuple[str, int]]) -> list[str]:
    found = list(rows)
    kinds = [(program.shape(value), program.dtype(value)) for _, value in found]
    return layer_patterns([name for name, _ in found], kinds)


def group_names(program: Program) -> list[str]:
    """The name of each argument's group; that of moments is their weight's."""
    patterns = argument_patterns(program)
    flow = ValueFlow(program)
    feeding = flow.feeding[[argument.value for argument in program.arguments]].tolist()
    weights: dict[tuple[object, ...], int] = {}
    for number, feeds in enumerate(feeding):
        if feeds:
            for key in (*_keys(program, number), *_roots(program, number)):
                weights.setdefault(key, number)
    found = []
    for number, own in enumerate(feeding):
        keys = () if own else itertools.chain(_keys(program, number), _tails(program, number))
        known = (weights[key] for key in keys if key in weights)
        found.append(patterns[next(iter(known), number)])
    return found


def _keys(program: Program, number: int) -> Iterator[tuple[object, ...]]:
    """The path of an argument with one step left out, for each of its leading steps."""
    argument = program.arguments[number]
    steps = path(argument.name).split("/")
    shape = program.shape(argument.value)
    for index, step in enumerate(steps[:-1]):
        if not _numbered(step):
            yield (shape, index, *steps[:index], *steps[index + 1 :])


def _roots(program: Program, number: int) -> Iterator[tuple[object, ...]]:
    """The path of a weight below its root, `params` or `state.params`: no number is left out."""
    argument = program.arguments[number]
    steps = path(argument.name).split("/")
    for index, step in enumerate(steps[: min(ROOT_STEPS, len(steps) - 1)], 1):
        if _numbered(step):
            return
        yield (program.shape(argument.value), *steps[index:])


def _tails(program: Program, number: int) -> Iterator[tuple[object, ...]]:
    """The last steps of the path of an argument, as many as there are first."""
    argument = program.arguments[number]
    steps = path(argument.name).split("/")
    for index in range(1, len(steps)):
        yield (program.shape(argument.value), *steps[index:])


@lru_cache(maxsize=1 << 12)
def _numbered(step: str) -> bool:
    """Whether a step has the number of a layer; few are distinct."""
    return any(map(str.isdigit, step))
