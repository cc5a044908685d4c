"""Plans with decisions below the colour level: what they cost, and what XLA makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.executor import same
from tests.laws.programs import EIGHT, picks, programs
from tests.laws.states import prepared, state_of
from tests.laws.xla import Xla, run_plan
from toast.costmodel.evaluator import Evaluator, Refined, Refinement, State
from toast.search.decision_sites import DecisionSite, SiteMembers, Thing, decision_sites, marks
from toast.search.refinement_moves import Refinements
from toast.search.set_resolutions import set_resolutions

FEW, MANY = few(25), many(1500)
chosen_places = st.lists(st.integers(0, 10_000), min_size=1, max_size=4)


def everywhere(evaluator: Evaluator) -> tuple[SiteMembers, list[DecisionSite]]:
    """Every place of a program."""
    things, program = SiteMembers(evaluator), evaluator.analysis.program
    values: list[Thing] = [("value", value) for value in range(program.values)]
    return things, decision_sites(things, values, 10_000)


def refined(
    evaluator: Evaluator, state: State, picked: list[int]
) -> tuple[Evaluator, Refined, list[DecisionSite]]:
    """A finer evaluator, and the state with refinements that some numbers pick."""
    things, spots = everywhere(evaluator)
    sets = set_resolutions(evaluator, state, things)
    finer = evaluator.marked(marks([spot.things for spot in spots], [one.things for one in sets]))
    refinements, taken = Refinements(finer, things, spots, sets), tuple[Refinement, ...]()
    for pick in picked:
        there = refinements.open(finer.masks((*state, *taken)))
        if there:
            taken = (*taken, there[pick % len(there)])
    return finer, (*state, *taken), spots


def check(xla: Xla, text: Text, mesh: str, chosen: list[int], picked: list[int]) -> None:
    module = text.module()
    source, evaluator = prepared(module, mesh)
    finer, decisions, _ = refined(evaluator, state_of(evaluator, chosen), picked)
    by_specification, expected, actual = run_plan(xla, text, module, source, finer, decisions)
    assert same(by_specification, expected)
    assert same(expected, actual)


@FEW
@given(text=programs(), mesh=st.sampled_from(EIGHT), chosen=picks, picked=chosen_places)
def test_written_modules_with_refinements_give_the_unsharded_result(
    xla: Xla, text: Text, mesh: str, chosen: list[int], picked: list[int]
) -> None:
    check(xla, text, mesh, chosen, picked)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(text=programs(most=10), mesh=st.sampled_from(EIGHT), chosen=picks, picked=chosen_places)
def test_long_chains_with_refinements_give_the_unsharded_result(
    xla: Xla, text: Text, mesh: str, chosen: list[int], picked: list[int]
) -> None:
    check(xla, text, mesh, chosen, picked)


@FEW
@given(text=programs(), mesh=st.sampled_from(EIGHT), chosen=picks)
def test_units_of_their_own_change_no_price(text: Text, mesh: str, chosen: list[int]) -> None:
    _, evaluator = prepared(text.module(), mesh)
    state = state_of(evaluator, chosen)
    _, spots = everywhere(evaluator)
    coarse, fine = (
        evaluator.cost(state),
        evaluator.marked(marks([spot.things for spot in spots])).cost(state),
    )
    assert fine.compute == pytest.approx(coarse.compute)
    assert fine.communication == pytest.approx(coarse.communication)
    assert fine.peak == pytest.approx(coarse.peak)


@FEW
@given(text=programs(), mesh=st.sampled_from(EIGHT), chosen=picks, picked=chosen_places)
def test_every_refinement_that_is_open_moves_its_axis_and_nothing_else(
    text: Text, mesh: str, chosen: list[int], picked: list[int]
) -> None:
    _, evaluator = prepared(text.module(), mesh)
    finer, decisions, _ = refined(evaluator, state_of(evaluator, chosen), picked)
    starts = finer.tables.units.start
    for count, refinement in enumerate(decisions):
        if not isinstance(refinement, Refinement):
            continue
        before, after = finer.masks(decisions[:count]), finer.masks(decisions[: count + 1])
        changed = np.flatnonzero(before != after)
        assert set((before ^ after)[changed].tolist()) == {1 << refinement.axis}
        for unit, item in refinement.places:
            held = np.flatnonzero(after[starts[unit] : starts[unit + 1]] >> refinement.axis & 1)
            assert held.tolist() == ([item] if item >= 0 else [])
            changed = changed[(changed < starts[unit]) | (changed >= starts[unit + 1])]
        assert not changed.size
    assert finer.cost(decisions) == finer.cost(decisions, finer.new_scratch())
