"""Explicit collectives and the program of one device give the unsharded result, in any sharding."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.executor import same, unsharded
from tests.laws.loops import PROGRAMS, lowered
from tests.laws.op_inputs import MODULES, inputs_of
from tests.laws.programs import EIGHT, FOUR_TO_EIGHT, picks, programs
from tests.laws.reference import FORMS, run_lowered
from tests.laws.states import MAX_ACTIONS, prepared, single_states, state_of

FEW, MANY = few(40), many(2000)
MESHES = (*FOUR_TO_EIGHT, "x=8,y=1", "x=1,y=8", "x=4,y=2")
NOT_ON_CPU = frozenset({"chlo.ragged_dot", "stablehlo.unary_einsum"})


def check(text: Text, mesh: str, chosen: list[int], form: str) -> None:
    module = text.module()
    source, evaluator = prepared(module, mesh)
    state = state_of(evaluator, chosen)
    note(f"{module}\n{state}")
    inputs = text.inputs()
    expected = unsharded(source, evaluator, inputs)
    made, actual = run_lowered(module, mesh, state, form, inputs)
    note(str(made.module))
    assert same(expected, actual)


@FEW
@given(
    text=programs(),
    mesh=st.sampled_from(MESHES),
    chosen=picks,
    form=st.sampled_from(sorted(FORMS)),
)
def test_lowered_programs_give_the_unsharded_result(
    text: Text, mesh: str, chosen: list[int], form: str
) -> None:
    check(text, mesh, chosen, form)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@MANY
@given(
    text=programs(most=10),
    mesh=st.sampled_from(MESHES),
    chosen=picks,
    form=st.sampled_from(sorted(FORMS)),
)
def test_lowered_programs_of_long_chains_give_the_unsharded_result(
    text: Text, mesh: str, chosen: list[int], form: str
) -> None:
    check(text, mesh, chosen, form)


def check_loops(name: str, seeds: range) -> None:
    function, inputs = PROGRAMS[name]
    module = lowered(function, inputs)
    for seed in seeds:
        mesh, form = EIGHT[seed % len(EIGHT)], sorted(FORMS)[seed % 2]
        source, evaluator = prepared(module, mesh)
        generator = random.Random(seed)
        chosen = [generator.randrange(10_000) for _ in range(generator.randint(1, MAX_ACTIONS))]
        state = state_of(evaluator, chosen)
        expected = unsharded(source, evaluator, inputs)
        _, actual = run_lowered(module, mesh, state, form, inputs)
        assert same(expected, actual), (state, form)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_lowered_loops_give_the_unsharded_result(name: str) -> None:
    check_loops(name, range(2))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_many_states_of_lowered_loops(name: str) -> None:
    check_loops(name, range(2, 40))


def check_op(name: str, mesh: str, most: int) -> None:
    module = MODULES[name]
    source, evaluator = prepared(module, mesh)
    inputs = inputs_of(name, source)
    _, expected = run_lowered(module, mesh, (), "local", inputs)
    for state in single_states(evaluator)[:most]:
        for form in FORMS:
            _, actual = run_lowered(module, mesh, state, form, inputs)
            for one, other in zip(expected, actual, strict=True):
                assert np.allclose(one, other, rtol=1e-5, atol=1e-5), (state, form)


@pytest.mark.nightly
@pytest.mark.parametrize("mesh", ["x=2,y=4", "x=8"])
@pytest.mark.parametrize("name", sorted(MODULES.keys() - NOT_ON_CPU))
def test_every_op_gives_the_unsharded_result(name: str, mesh: str) -> None:
    check_op(name, mesh, 40)


SOME = (
    "stablehlo.case", "stablehlo.concatenate", "stablehlo.convolution", "stablehlo.gather",
    "stablehlo.reduce", "stablehlo.scatter", "stablehlo.slice", "stablehlo.sort",
    "stablehlo.while", "stablehlo.dynamic_update_slice",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(SOME) & MODULES.keys()))
def test_an_op_gives_the_unsharded_result(name: str) -> None:
    check_op(name, "x=2,y=4", 2)
