"""Loops and branches: any state gives the unsharded result, in shards and in XLA."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.laws.executor import Executor, same, unsharded
from tests.laws.layout import Array
from tests.laws.loops import PROGRAMS, lowered
from tests.laws.programs import EIGHT
from tests.laws.states import MAX_ACTIONS, prepared, state_of
from tests.laws.xla import Xla, request_of

NAMES = sorted(PROGRAMS)


def some_picks(seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(10_000) for _ in range(generator.randint(1, MAX_ACTIONS))]


def in_shards(name: str, seeds: range) -> None:
    function, inputs = PROGRAMS[name]
    module = lowered(function, inputs)
    for seed in seeds:
        source, evaluator = prepared(module, EIGHT[seed % len(EIGHT)])
        state = state_of(evaluator, some_picks(seed))
        expected = unsharded(source, evaluator, inputs)
        actual = Executor(source, evaluator, state).run(inputs)
        assert same(expected, actual), state


def in_xla(xla: Xla, name: str, seeds: range) -> None:
    function, inputs = PROGRAMS[name]
    module = lowered(function, inputs)
    for seed in seeds:
        source, evaluator = prepared(module, EIGHT[seed % len(EIGHT)])
        state = state_of(evaluator, some_picks(seed))
        by_specification = unsharded(source, evaluator, inputs)
        reply = xla.run(request_of(module, source, evaluator, state, inputs))
        assert isinstance(reply, tuple), (state, reply)
        assert same(by_specification, reply[0])
        assert same(reply[0], reply[1]), state


def by_jax(name: str) -> list[Array]:
    import jax

    function, inputs = PROGRAMS[name]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(function(*inputs))]


@pytest.mark.parametrize("name", NAMES)
def test_the_executor_runs_loops_and_branches_as_jax_does(name: str) -> None:
    function, inputs = PROGRAMS[name]
    source, evaluator = prepared(lowered(function, inputs), "x=2,y=4")
    assert same(by_jax(name), unsharded(source, evaluator, inputs))


@pytest.mark.parametrize("name", NAMES)
def test_loops_in_shards_give_the_unsharded_result(name: str) -> None:
    in_shards(name, range(4))


@pytest.mark.parametrize("name", NAMES)
def test_written_loops_give_the_unsharded_result(xla: Xla, name: str) -> None:
    in_xla(xla, name, range(3))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_many_states_of_loops_in_shards(name: str) -> None:
    in_shards(name, range(4, 80))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_many_states_of_written_loops(xla: Xla, name: str) -> None:
    in_xla(xla, name, range(3, 60))
