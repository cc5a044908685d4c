"""The module that is written for a state gives the unsharded result when XLA runs it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.executor import same
from tests.laws.programs import EIGHT, picks, programs
from tests.laws.states import prepared, state_of
from tests.laws.xla import Xla, run_plan

FEW, MANY = few(50), many(2000)


def check(xla: Xla, text: Text, mesh: str, chosen: list[int]) -> None:
    module = text.module()
    source, evaluator = prepared(module, mesh)
    state = state_of(evaluator, chosen)
    by_specification, expected, actual = run_plan(xla, text, module, source, evaluator, state)
    assert same(by_specification, expected), "XLA on one device does not do what StableHLO says"
    assert same(expected, actual)


@FEW
@given(text=programs(), mesh=st.sampled_from(EIGHT), chosen=picks)
def test_written_modules_give_the_unsharded_result(
    xla: Xla, text: Text, mesh: str, chosen: list[int]
) -> None:
    check(xla, text, mesh, chosen)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(text=programs(most=10), mesh=st.sampled_from(EIGHT), chosen=picks)
def test_written_modules_of_long_chains_give_the_unsharded_result(
    xla: Xla, text: Text, mesh: str, chosen: list[int]
) -> None:
    check(xla, text, mesh, chosen)
