"""Meshes to choose from, plans to choose from, and proofs, in one process."""

from __future__ import annotations

import itertools
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.probes.programs import lowered
from tests.modules import evaluator_of, text
from tests.search.problems import problem_of
from tests.toast.planned import gemma_text, request
from toast.analysis.analyse import Analysis
from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.analysis.load import load
from toast.costmodel.program.pins import Pins
from toast.costmodel.program.sharding_units import Layouts, lay_out
from toast.costmodel.resolved import resolve
from toast.labels.decisions import costs_after, decision_names, decision_text, decisions, state_of
from toast.labels.labels import Labels
from toast.pipeline.plan_module import make_plan
from toast.plans.choices import request_of, with_choices
from toast.plans.plan import Plan
from toast.search.progress import Progress

MOST = 10


@cache
def planned() -> Plan:
    return make_plan(gemma_text(), request(rollouts=300)).plan


@cache
def on_auto() -> Plan:
    return make_plan(gemma_text(), request(mesh="auto:8", rollouts=100)).plan


def test_a_plan_has_choices_and_is_one_of_them() -> None:
    choices = planned().choices
    assert 1 < len(choices) <= MOST
    (chosen,) = [choice for choice in choices if choice.chosen]
    predicted = planned().predicted.model_dump()
    assert {key: chosen.model_dump()[key] for key in predicted} == predicted
    for low, high in itertools.pairwise(choices):
        assert low.peak_bytes <= high.peak_bytes
        assert low.step_seconds > high.step_seconds


def test_each_choice_can_be_made_again() -> None:
    for number, choice in enumerate(planned().choices, 1):
        again = make_plan(gemma_text(), request_of(planned(), number)).plan
        assert again.predicted.step_seconds == choice.step_seconds
        assert again.predicted.peak_bytes == choice.peak_bytes
        assert again.search.termination == "given"
        told = with_choices(again, planned(), number)
        assert [each.chosen for each in told.choices].index(True) == number - 1
        assert [each.decisions for each in told.choices] == [
            each.decisions for each in planned().choices
        ]


def test_a_number_that_is_no_choice_is_refused() -> None:
    for number in (0, -1, len(planned().choices) + 1):
        with pytest.raises(InvalidRequest, match=f"no choice {number}"):
            request_of(planned(), number)
    with pytest.raises(InvalidRequest, match="has no choices"):
        request_of(planned().model_copy(update={"choices": []}), 1)
    with pytest.raises(InvalidRequest, match="has no choices"):
        request_of(planned().model_copy(update={"request": None}), 1)


def test_a_plan_holds_what_was_asked() -> None:
    assert planned().request == request(rollouts=300)


@pytest.mark.parametrize("name", ["mlp", "attention", "transpose"])
def test_decisions_are_read_as_they_are_written(name: str) -> None:
    problem = problem_of(text(name), "a=2,b=2")
    analysis = problem.evaluator.analysis
    words = Labels(load(text(name)), analysis).resolutions
    for state in itertools.permutations(problem.actions, 2):
        resolved = resolve(problem.evaluator, state)
        costs = costs_after(problem, resolved)
        rows = decisions(problem, resolved, costs, decision_names(analysis), words)
        assert costs == [problem.cost(state[:count])[1] for count in (1, 2)]
        assert [row.cost_after for row in rows] == [problem.reward.of(cost) for cost in costs]
        assert [row.step_seconds_after for row in rows] == [cost.seconds for cost in costs]
        assert [len(row.resolved) for row in rows] == [len(row.resolution) for row in rows]
        texts = tuple(decision_text(row.colour, row.axis, row.resolution) for row in rows)
        assert state_of(problem, texts) == state


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_no_two_colours_have_one_name(name: str) -> None:
    names = decision_names(evaluator_of(text(name), "a=2").analysis)
    assert len(set(names)) == len(names)


def test_colours_of_one_name_get_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = evaluator_of(text("mlp"), "a=2").analysis
    monkeypatch.setattr("toast.labels.decisions.colour_names", lambda _: ["x.0", "w.0", "x.0"])
    assert decision_names(analysis) == ["x.0#0", "w.0", "x.0#2"]


@pytest.mark.parametrize(
    ("decision", "part"),
    [
        ("nobody.0=a", "a colour that this module does not have"),
        ("=a", "a colour that this module does not have"),
        ("{}=z", "names the axis 'z'"),
        ("{}", "a colour that"),
        ("{}=a:2", "has the resolution '2'"),
        ("{}=a:0101010101", "has the resolution '0101010101'"),
    ],
)
def test_a_decision_that_is_none_is_refused(decision: str, part: str) -> None:
    problem = problem_of(text("attention"), "a=2,b=2")
    name = decision_names(problem.evaluator.analysis)[problem.actions[0].group]
    with pytest.raises(InvalidRequest, match=part) as caught:
        state_of(problem, (decision.format(name),))
    assert caught.value.hint


def test_given_decisions_are_not_searched_for() -> None:
    plan = make_plan(gemma_text(), request(decisions=())).plan
    assert plan.predicted.step_seconds == plan.unsharded.step_seconds
    assert (plan.search.planner, plan.search.evaluations) == ("given", 1)
    assert (plan.decisions, plan.choices) == ([], [])


def test_the_best_of_the_meshes_is_taken_and_all_are_listed() -> None:
    plan = on_auto()
    assert [row.mesh for row in plan.meshes] == ["d0=8", "d0=2,d1=4", "d0=2,d1=2,d2=2"]
    (best,) = [row for row in plan.meshes if row.chosen]
    assert best.mesh == ",".join(f"{axis.name}={axis.size}" for axis in plan.mesh.axes)
    assert best.predicted is not None
    known = best.predicted.model_dump(exclude={"bands", "pressed_bytes", "verdict"})
    assert known == plan.predicted.model_dump(exclude={"bands", "pressed_bytes", "verdict"})
    costs = [row.predicted for row in plan.meshes if row.predicted is not None]
    assert len(costs) == 3
    assert plan.predicted.step_seconds == min(cost.step_seconds for cost in costs)


def test_a_choice_on_the_best_mesh_can_be_made_again() -> None:
    again = make_plan(gemma_text(), request_of(on_auto(), 1)).plan
    assert again.predicted.peak_bytes == on_auto().choices[0].peak_bytes
    assert [axis.size for axis in again.mesh.axes] == [axis.size for axis in on_auto().mesh.axes]


def test_a_given_mesh_has_no_others_beside_it() -> None:
    assert planned().meshes == []


def test_a_mesh_that_divides_nothing_is_reported_and_the_others_are_tried() -> None:
    module = text("mlp").replace(b"256x", b"12x")
    plan = make_plan(module, request(mesh="auto:24")).plan
    refused = [row for row in plan.meshes if row.predicted is None]
    assert all("is divisible by an axis" in row.reason for row in refused)
    assert any(row.chosen for row in plan.meshes)


def test_where_no_mesh_can_be_planned_for_the_first_reason_is_raised() -> None:
    with pytest.raises(InvalidMesh, match="divisible by an axis of the mesh d0=7"):
        make_plan(text("mlp"), request(mesh="auto:7"))


def test_pins_leave_out_meshes_that_have_not_their_axes() -> None:
    plan = make_plan(gemma_text(), request(mesh="auto:8", pins=("batch/tokens=d1",))).plan
    first = plan.meshes[0]
    assert (first.predicted, first.chosen) == (None, False)
    assert "names the axis 'd1'" in first.reason
    (tokens,) = [each for each in plan.arguments if each.name == "batch['tokens']"]
    assert tokens.spec[0] == ["d1"]


def test_a_cancel_holds_over_all_meshes() -> None:
    looks = itertools.count()
    result = make_plan(
        gemma_text(),
        request(mesh="auto:8", rollouts=10**6),
        cancelled=lambda: next(looks) > 3,
    )
    plan = result.plan
    assert plan.search.termination == "cancelled"
    assert plan.meshes[0].chosen
    reasons = {row.reason for row in plan.meshes[1:]}
    assert reasons == {"not reached before the search was cancelled"}
    assert result.module


def test_the_program_is_laid_out_once_for_all_meshes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pins] = []

    def counted(analysis: Analysis, pins: Pins) -> Layouts:
        made.append(pins)
        return lay_out(analysis, pins)

    monkeypatch.setattr("toast.costmodel.evaluator.lay_out", counted)
    plan = make_plan(gemma_text(), request(mesh="auto:8", rollouts=50)).plan
    assert len(plan.meshes) == 3
    assert len(made) == 1


def test_a_budget_holds_over_all_meshes() -> None:
    plan = make_plan(gemma_text(), request(mesh="auto:8", rollouts=10**7, budget=1e-4)).plan
    assert plan.search.termination == "budget"
    reasons = {row.reason for row in plan.meshes[1:]}
    assert reasons == {"not reached within the budget"}


def test_progress_over_several_meshes_only_grows() -> None:
    seen: list[Progress] = []
    asked = request(mesh="auto:4", rollouts=50, prove=True)
    make_plan(text("attention"), asked, on_progress=seen.append)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    stages = [stage for stage, _ in itertools.groupby(progress.stage for progress in seen)]
    assert stages[3:] == [
        *["tables", "search"] * 2,
        "choices",
        "proof",
        "explain",
        "alternatives",
        "write",
        "describe",
    ]


@pytest.mark.parametrize("planner", ["mcts", "greedy", "random"])
def test_any_planner_is_bounded_on_request(planner: str) -> None:
    plan = make_plan(text("attention"), request(planner=planner, prove=True)).plan
    assert plan.lower_bound is not None
    assert plan.gap is not None
    assert plan.lower_bound <= plan.search.cost * (1 + 1e-9)
    assert plan.gap == pytest.approx(max(0.0, 1 - plan.lower_bound / plan.search.cost), abs=1e-9)
    assert plan.relaxation in ("branch and bound", "linear relaxation")


def test_a_missing_bound_that_was_asked_for_is_reported() -> None:
    hurried = request(prove=True, rollouts=10**7, budget=1e-4)
    given = request(prove=True, decisions=())
    for asked in (hurried, given):
        plan = make_plan(text("attention"), asked).plan
        assert plan.lower_bound is None
        assert any("No lower bound was proved" in warning for warning in plan.warnings)


def test_a_plan_says_that_large_constants_are_on_every_device() -> None:
    numbers = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
    data = lowered(lambda x: jnp.tanh(x + numbers), (512, 512))
    said = {
        memory: make_plan(
            data, request(mesh="data=8", device="tpu-v5e", memory=memory)
        ).plan.warnings
        for memory in (2**24, 2**30)
    }
    (warning,) = [one for one in said[2**24] if "constants" in one]
    assert "1.00 MiB" in warning
    assert not [one for one in said[2**30] if "constants" in one]
