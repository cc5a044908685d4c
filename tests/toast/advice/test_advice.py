"""A plan that does not fit says what would, in the record, the tables and the warning."""

from __future__ import annotations

import warnings
from functools import cache

import pytest

import toast
from tests.toast.advice.misfits import MESH, SMALL, planned, step
from tests.toast.planned import request
from toast.costmodel.hardware.devices import find
from toast.pipeline.advice import advise
from toast.pipeline.plan_module import make_plan
from toast.plans.advice import Advice
from toast.plans.plan import Plan
from toast.plans.report import make_console, render
from toast.plans.result import PlanResult
from toast.sharding.planning import warn_of

MEMORY = int(planned().peak * 0.6)


@cache
def plan() -> Plan:
    return make_plan(step(SMALL), request(mesh=MESH, memory=MEMORY, rollouts=200)).plan


def advice() -> Advice:
    shortfall = plan().shortfall
    assert shortfall is not None
    assert shortfall.advice is not None
    return shortfall.advice


def shown(what: Plan) -> str:
    console = make_console()
    with console.capture() as capture:
        console.print(render(what))
    return " ".join(capture.get().split())


def test_a_plan_that_does_not_fit_has_all_of_it() -> None:
    found = advice()
    assert found.fewest is not None
    assert found.fewest > 2
    assert found.batch is not None
    assert found.batch.fits is not None
    assert [row.fits for row in found.rewritings if row.chosen] == [True]
    others = [row for row in found.slices if row.device != "cpu"]
    assert {row.devices for row in others} == {2}
    assert any(row.fits for row in others)
    assert plan().stages["advice"] > 0


def test_the_plan_is_there_before_what_would_fit_is_looked_for() -> None:
    early: list[PlanResult] = []
    asked = request(mesh=MESH, memory=MEMORY, rollouts=50)
    result = make_plan(step(SMALL), asked, on_plan=early.append)
    (first,) = early
    assert first.module == result.module
    assert first.plan.predicted == result.plan.predicted
    assert first.plan.shortfall is not None
    assert first.plan.shortfall.advice is None
    assert "What would fit is not known" in first.plan.warnings[-1]
    assert not any("What would fit" in text for text in result.plan.warnings)
    make_plan(step(SMALL), request(mesh=MESH, rollouts=50), on_plan=early.append)
    assert len(early) == 1


def test_the_record_survives_its_file() -> None:
    assert Plan.from_json(plan().to_json()).shortfall == plan().shortfall


@pytest.mark.parametrize("number", range(2))
def test_a_rewriting_takes_what_its_flags_make(number: int) -> None:
    """A search of its own finds no worse plan of it."""
    row = [row for row in advice().rewritings if row.fits][number]
    asked = {"microbatches": row.microbatches, "recompute": tuple(row.recompute.split())}
    made = make_plan(step(SMALL), request(mesh=MESH, memory=MEMORY, **asked)).plan.predicted
    assert made.fits
    assert row.step_seconds is not None
    assert made.step_seconds <= row.step_seconds * 1.001
    assert made.step_seconds >= row.step_seconds * 0.8


def test_rewritings_are_not_planned_twice_nor_against_the_request() -> None:
    for changes, said in (
        ({"fit": True, "memory": MEMORY // 100}, "rewritings: those that the request asks for"),
        ({"microbatches": 1, "recompute": ("none",)}, ""),
    ):
        asked = {"mesh": MESH, "memory": MEMORY, "rollouts": 50, **changes}
        found = make_plan(step(SMALL), request(**asked)).plan.shortfall
        assert found is not None
        assert found.advice is not None
        assert found.advice.rewritings == []
        assert said in " ".join(found.advice.left_out)


def test_the_tables_show_it() -> None:
    text = shown(plan())
    assert "What would fit" in text
    assert f"{advice().fewest} x cpu" in text
    for what in ("more chips", "batch", "rewritten", "other chips"):
        assert what in text


def test_it_is_left_out_on_request_and_where_all_fits_and_for_given_decisions() -> None:
    asked = {"mesh": MESH, "memory": MEMORY, "rollouts": 50}
    for changes in ({"advice": False}, {"decisions": ()}):
        found = make_plan(step(SMALL), request(**asked, **changes)).plan
        assert found.shortfall is not None
        assert found.shortfall.advice is None
        assert "advice" not in found.stages
        assert "What would fit" not in shown(found)
    roomy = make_plan(step(SMALL), request(mesh=MESH, rollouts=50)).plan
    assert roomy.shortfall is None
    assert "advice" not in roomy.stages


def test_what_there_is_no_time_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toast.pipeline.plan_module.SECONDS", 1e-9)
    found = make_plan(step(SMALL), request(mesh=MESH, memory=MEMORY, rollouts=50)).plan
    assert found.shortfall is not None
    hurried = found.shortfall.advice
    assert hurried is not None
    assert (hurried.slices, hurried.batch, hurried.rewritings) == ([], None, [])
    for what in ("rewritings", "batch", "more chips", "other chips"):
        assert any(text.startswith(f"{what}: there was no time") for text in hurried.left_out)
    assert "Not known" in shown(found)


def test_a_module_without_a_batch_says_so() -> None:
    module = b"""
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = stablehlo.tanh %x : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
"""
    found = make_plan(module, request(mesh="a=2", memory=1 << 12, rollouts=20)).plan
    assert found.shortfall is not None
    assert found.shortfall.advice is not None
    left = " ".join(found.shortfall.advice.left_out)
    assert "batch: no argument" in left
    assert "rewritings: No layer of this program can be recomputed" in left


def test_the_warning_of_autoshard_says_it_too() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of(plan())
    (text,) = [str(one.message) for one in caught if one.category is toast.DoesNotFit]
    assert "What would fit: rewritten: plan with --" in text
    assert "more chips: " in text


def test_what_there_is_no_time_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advise, "least_seconds", lambda _job: advise.SECONDS + 1.0)
    found = make_plan(step(SMALL), request(mesh=MESH, memory=MEMORY, rollouts=50)).plan.shortfall
    assert found is not None
    assert found.advice is not None
    assert found.advice.left_out == [
        f"{what}: there was no time"
        for what in ("rewritings", "batch", "more chips", "other chips")
    ]
    assert found.advice.slices == []


def test_other_chips_give_the_part_of_their_memory_that_the_request_gives() -> None:
    share = MEMORY / find("cpu").plannable_bytes
    others = [row for row in advice().slices if row.device != "cpu"]
    assert others
    for row in others:
        assert row.memory_bytes == pytest.approx(find(row.device).plannable_bytes * share, abs=1)
        assert row.memory_bytes > MEMORY
        assert row.peak_bytes is None or row.fits == (row.peak_bytes <= row.memory_bytes)
