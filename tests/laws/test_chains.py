"""Any sharding that the names allow gives the unsharded result, in shards as well as in XLA."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.executor import Executor, same, unsharded
from tests.laws.programs import FOUR_TO_EIGHT, picks, programs
from tests.laws.states import prepared, state_of

FEW, MANY = few(200), many(5000)


def check(text: Text, mesh: str, chosen: list[int]) -> None:
    module = text.module()
    source, evaluator = prepared(module, mesh)
    state = state_of(evaluator, chosen)
    note(f"{module}\n{state}")
    inputs = text.inputs()
    expected = unsharded(source, evaluator, inputs)
    actual = Executor(source, evaluator, state).run(inputs)
    assert same(expected, actual), (module, state)


@FEW
@given(text=programs(), mesh=st.sampled_from(FOUR_TO_EIGHT), chosen=picks)
def test_shards_give_the_unsharded_result(text: Text, mesh: str, chosen: list[int]) -> None:
    check(text, mesh, chosen)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(text=programs(most=12), mesh=st.sampled_from(FOUR_TO_EIGHT), chosen=picks)
def test_shards_give_the_unsharded_result_of_long_chains(
    text: Text, mesh: str, chosen: list[int]
) -> None:
    check(text, mesh, chosen)
