"""What a colour would cost otherwise: the very plans that those decisions make."""

from __future__ import annotations

from functools import cache

import pytest

from tests.toast import transformer
from tests.toast.planned import request
from toast.pipeline.alternatives import FEWEST, KEPT, MOST
from toast.pipeline.plan_module import make_plan
from toast.plans.alternatives import Alternative, PlanColour
from toast.plans.plan import Decision, Plan
from toast.plans.tensors import tensor_patterns


@cache
def plan() -> Plan:
    return make_plan(transformer.module(), request(mesh="data=2,model=2", rollouts=400)).plan


def text(row: Decision) -> str:
    return f"{row.colour}={row.axis}" + (f":{row.resolution}" if row.resolution else "")


@cache
def given(*decisions: str) -> Plan:
    """The plan that decisions make."""
    asked = request(mesh="data=2,model=2", decisions=decisions)
    return make_plan(transformer.module(), asked).plan


def decided() -> list[PlanColour]:
    return [colour for colour in plan().colours if colour.decisions]


def assert_is(alternative: Alternative, other: Plan) -> None:
    """The figures are those of the other plan, and what moves is what lies otherwise there."""
    cost = other.predicted
    assert alternative.step_seconds == pytest.approx(cost.step_seconds, rel=1e-12)
    assert alternative.communication_seconds == pytest.approx(cost.communication_seconds)
    assert (alternative.peak_bytes, alternative.fits) == (cost.peak_bytes, cost.fits)
    assert alternative.cost == pytest.approx(other.search.cost)
    pairs = zip(plan().arguments, other.arguments, strict=True)
    moved = [there for here, there in pairs if here.spec != there.spec]
    assert sum(row.count for row in alternative.moved) + alternative.others_moved == len(moved)
    patterns = tensor_patterns(plan().arguments)
    specs = {(patterns[one.index], repr(one.spec)) for one in moved}
    for row in alternative.moved:
        if "','" not in row.name:
            assert (row.name, repr(row.spec)) in specs


def test_a_colour_left_whole_is_the_plan_without_its_decisions() -> None:
    seen = 0
    for colour in decided():
        kept = [text(row) for row in plan().decisions if row.colour != colour.name]
        for alternative in colour.alternatives:
            if not alternative.axes:
                assert_is(alternative, given(*kept))
                seen += 1
    assert seen == len(decided()) > 1


def test_a_colour_over_one_more_axis_is_the_plan_with_that_decision() -> None:
    seen = 0
    for colour in plan().colours:
        for alternative in colour.alternatives:
            added = len(alternative.axes) == len(colour.axes) + 1
            if added and not alternative.first and alternative.axes[:-1] == colour.axes:
                bits = f":{alternative.resolution}" if alternative.resolution else ""
                more = f"{colour.name}={alternative.axes[-1]}{bits}"
                assert_is(alternative, given(*map(text, plan().decisions), more))
                seen += 1
    assert seen > 2


def test_decided_colours_come_first_with_their_decisions() -> None:
    found = plan()
    for colour in decided():
        rows = [found.decisions[number - 1] for number in colour.decisions]
        assert [row.axis for row in rows] == colour.axes
        assert {row.colour for row in rows} == {colour.name}
    decisions = [bool(colour.decisions) for colour in found.colours]
    assert decisions == sorted(decisions, reverse=True)
    assert {row.colour for row in found.decisions} == {colour.name for colour in decided()}


def test_alternatives_are_others_than_the_plan_cheapest_first_and_few() -> None:
    whole = 0
    for colour in plan().colours:
        costs = [row.cost for row in colour.alternatives]
        assert costs == sorted(costs)
        assert len(costs) <= KEPT
        whole += len(costs)
        for row in colour.alternatives:
            assert (row.axes, row.first) != (colour.axes, True)
    assert whole <= MOST
    assert "alternatives" in plan().stages


def test_a_search_of_few_evaluations_prices_few_alternatives() -> None:
    found = given(*map(text, plan().decisions))
    assert found.search.evaluations == 1
    assert sum(len(colour.alternatives) for colour in found.colours) <= FEWEST
    assert found.colours[0].alternatives == plan().colours[0].alternatives


def test_every_dimension_of_arguments_and_results_knows_its_colour() -> None:
    found = plan()
    names = {colour.id: colour.name for colour in found.colours}
    for tensor in (*found.arguments, *found.results):
        assert len(tensor.colours) == len(tensor.shape)
        assert set(tensor.colours) - {-1} <= set(names)
    by_name = {tensor.name: tensor for tensor in found.arguments}
    wq, wk = (by_name[f"params['layers'][0]['{name}']"] for name in ("wq", "wk"))
    assert wq.colours[0] == wk.colours[0], "both read the stream"
    assert names[wq.colours[0]].endswith("['embed'].1") or "'head'" in names[wq.colours[0]]


def test_the_last_decision_leaves_what_the_plan_costs() -> None:
    found = plan()
    assert found.decisions[-1].step_seconds_after == found.predicted.step_seconds
    assert found.decisions[-1].peak_bytes_after == found.predicted.peak_bytes


def test_collectives_lead_to_the_decisions_behind_them() -> None:
    batch = given("batch['tokens'].0=data")
    assert batch.explanation is not None
    assert {tuple(row.decisions) for row in batch.explanation.collectives} == {(1,)}
    stored = given("batch['tokens'].0=data", f"{hidden()}=data")
    assert stored.explanation is not None
    rows = {
        (row.kind, row.value): row.decisions
        for row in stored.explanation.collectives
        if row.value in ("params['layers'][*]['down']", "gradient of wq, attention/bsd,dhk->bshk")
    }
    assert rows["all_gather", "params['layers'][*]['down']"] == [1, 2]
    assert rows["all_reduce", "gradient of wq, attention/bsd,dhk->bshk"] == [1]


def hidden() -> str:
    """The colour of the hidden dimension of the MLP."""
    names = {colour.id: colour.name for colour in plan().colours}
    down = next(one for one in plan().arguments if one.name == "params['layers'][0]['down']")
    return names[down.colours[0]]


def test_a_pinned_layout_has_no_decision_behind_its_collectives() -> None:
    asked = request(
        mesh="data=2", decisions=(), pins=("params/layers/*/down=data,None",), rollouts=None
    )
    found = make_plan(transformer.module(), asked).plan
    assert found.explanation is not None
    assert found.explanation.collectives
    assert not any(row.decisions for row in found.explanation.collectives)
