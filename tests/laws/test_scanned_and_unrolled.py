"""A scanned stack and its unrolled twin: the same colours, and each other's plans are as good."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, permutations

import pytest

from tests.laws.equal_ops import STACKS, scanned, text_of, training, unrolled
from tests.laws.states import prepared
from tests.modules import colours_of
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.search.actions import action_space

MESH = "data=2,model=4"
CLOSE = 1.05


@dataclass(frozen=True, slots=True)
class Twins:
    """Evaluators of a scanned step and of its unrolled twin."""

    scanned: Evaluator
    unrolled: Evaluator


@pytest.fixture(scope="module", params=[(n, t) for n in sorted(STACKS) for t in (False, True)])
def twins(request: pytest.FixtureRequest) -> Twins:
    name, trained = request.param
    layer, weights, x = STACKS[name]
    steps = [scanned(layer), unrolled(layer)]
    if trained:
        steps = [training(step) for step in steps]
    return Twins(*(prepared(text_of(step, weights, x), MESH)[1] for step in steps))


def argument_colours(evaluator: Evaluator) -> list[int]:
    """The colours of all dimensions of all arguments, one after the other."""
    analysis = evaluator.analysis
    return [
        colour
        for argument in analysis.program.arguments
        for colour in colours_of(analysis, argument.value)
    ]


def partition(colours: list[int]) -> list[int]:
    """Colours numbered as they first appear; -1 stays."""
    number: dict[int, int] = {}
    return [number.setdefault(c, len(number)) if c >= 0 else -1 for c in colours]


def best(evaluator: Evaluator) -> State:
    """The fastest state of up to three actions: all of them are tried."""
    actions = action_space(evaluator)
    states = chain.from_iterable(permutations(actions, length) for length in range(4))
    return min(states, key=lambda state: evaluator.cost(state).seconds)


def carried_over(state: State, source: Evaluator, target: Evaluator) -> State:
    """The state of one twin as actions of the other, by the arguments that groups appear on."""
    groups = [evaluator.analysis.groups.of_colour for evaluator in (source, target)]
    pairs = zip(argument_colours(source), argument_colours(target), strict=True)
    number = {int(groups[0][a]): int(groups[1][b]) for a, b in pairs if a >= 0 and b >= 0}
    return tuple(
        Action(group=number[action.group], axis=action.axis, bits=action.bits)
        for action in state
        if action.group in number
    )


def test_twins_have_the_same_colours(twins: Twins) -> None:
    first, second = argument_colours(twins.scanned), argument_colours(twins.unrolled)
    assert partition(first) == partition(second)
    assert len(set(first)) > 2


def test_twins_have_the_same_resolutions(twins: Twins) -> None:
    first, second = twins.scanned.analysis, twins.unrolled.analysis
    assert first.groups.sets == second.groups.sets


def test_the_plan_of_one_twin_is_as_good_for_the_other(twins: Twins) -> None:
    for source, target in (
        (twins.scanned, twins.unrolled),
        (twins.unrolled, twins.scanned),
    ):
        carried = target.cost(carried_over(best(source), source, target)).seconds
        own = target.cost(best(target)).seconds
        assert carried <= CLOSE * own


def test_twins_gain_as_much(twins: Twins) -> None:
    """Shares of the unsharded time: loops move some data of their own, sharded or not."""
    shares = [
        evaluator.cost(best(evaluator)).seconds / evaluator.cost(()).seconds
        for evaluator in (twins.scanned, twins.unrolled)
    ]
    assert abs(shares[0] - shares[1]) < 0.05
