"""What the compiler says of the most promising plans decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toast.confirm.compiler import MIB, Compiler, confirmed, folder, planned
from toast.analysis.errors import EngineCrashed
from toast.plans.confirmation_report import sentence
from toast.plans.costs import PredictedCost
from toast.plans.plan import Plan
from toast.plans.report import as_text

__all__ = ["folder"]
pytestmark = pytest.mark.usefixtures("folder")


def without_bands(cost: PredictedCost) -> PredictedCost:
    """The prediction as it is kept for each plan that was compiled."""
    return cost.model_copy(update={"bands": None, "verdict": None, "pressed_bytes": None})


def test_the_fastest_program_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 if number == 1 else 9))
    plan, found = confirmed(compiler, monkeypatch)
    assert [row.chosen for row in found.plans].index(True) == 1
    assert found.fits
    assert plan.fits
    assert found.plans[0].kind == "answer"
    assert {row.kind for row in found.plans if row.control} == {"data_parallel", "fully_sharded"}
    assert not found.corrections
    row = found.chosen
    assert row is not None
    assert row.compiled is not None
    assert row.compiled.step_seconds == pytest.approx(5e-3)
    assert row.predicted == without_bands(plan.predicted)
    assert [f"{one.colour}={one.axis}" for one in plan.decisions if not one.places] == [
        text.partition(":")[0] for text in row.decisions
    ]


def test_the_plan_s_module_is_the_one_that_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 if number == 2 else 9))
    result = planned(compiler, monkeypatch)
    assert result.module == compiler.modules[2]


def test_half_of_the_plans_and_all_controls_are_compiled_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = Compiler(lambda number: (10, 5 + number))
    _, found = confirmed(compiler, monkeypatch)
    assert [row.control for row in found.plans] == [False] * 3 + [True] * 2
    left_out = [row for row in found.plans if row.compiled and not row.compiled.whole]
    assert [row.note for row in left_out] == ["memory alone: others promise more"]
    assert {3, 4} < set(compiler.whole)


def test_a_control_that_is_best_is_taken_after_searching_twice_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = Compiler(lambda number: (10, 5 if number == 3 else 9))
    plan, found = confirmed(compiler, monkeypatch)
    assert found.chosen is not None
    assert found.chosen.kind == "data_parallel"
    assert found.corrections
    assert {one.reason for one in found.corrections} == {"control"}
    assert {one.memory for one in found.corrections} == {1.0}
    assert found.corrections[0].compute["other"] > 1
    assert max(one.search for one in found.corrections) <= 3
    assert without_bands(plan.predicted) == found.chosen.predicted


def test_where_all_are_refused_the_memory_is_tightened(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda _: (20_000, 9), available=16_000)
    plan, found = confirmed(compiler, monkeypatch)
    assert found.fits is False
    assert not plan.fits
    assert plan.predicted.fits
    assert any("the compiler refuses it" in text for text in plan.warnings)
    assert not compiler.whole
    first = found.corrections[0]
    assert (first.reason, first.search) == ("refused", 2)
    assert first.memory == 3.0  # the ratio is far more, and no ratio counts for more than this
    assert first.memory_bytes == pytest.approx(found.memory_bytes / 3.0, rel=1e-6)


def test_what_another_search_finds_is_taken_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = 0.9
    compiler = Compiler(lambda number: (30 if number < 5 else 1, 9), available=20)
    plan, found = confirmed(compiler, monkeypatch, memory=int(tight * MIB))
    assert found.chosen is not None
    assert found.fits is (found.chosen.search > 1)
    assert plan.fits is found.fits
    assert found.corrections


def test_a_plan_that_is_predicted_not_to_fit_may_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (0.1, 9 + number))
    plan, found = confirmed(compiler, monkeypatch, memory=int(0.2 * MIB))
    assert not plan.predicted.fits
    assert plan.fits
    assert plan.shortfall is None
    assert any("the compiler made it fit" in text for text in plan.warnings)
    assert compiler.reserved == {found.reserved_bytes}
    assert found.reserved_bytes > 15 * 2**30


def test_without_time_the_plan_is_that_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda _: (10, 5))
    plan, found = confirmed(compiler, monkeypatch, confirm_time=1e-9)
    assert compiler.calls == 0
    assert found.fits is None
    assert found.plans[0].chosen
    assert {row.note for row in found.plans} == {"not compiled: the time was up"}
    assert plan.fits is plan.predicted.fits
    assert "The compiler confirmed nothing: the time was up." in plan.warnings
    assert "Not confirmed" in sentence(found)


def test_a_compiler_that_dies_takes_only_its_plan_along(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = EngineCrashed("The engine process was killed.", "Try again.")
    compiler = Compiler(
        lambda number: (10, 5 + number), fails=lambda number: crash if number == 0 else None
    )
    _, found = confirmed(compiler, monkeypatch)
    assert found.plans[0].compiled is None
    assert found.plans[0].note == "not compiled: the compiler process was killed"
    assert found.chosen is not None
    assert found.chosen is not found.plans[0]
    assert found.fits


def test_what_was_compiled_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 + number))
    _, first = confirmed(compiler, monkeypatch)
    calls = compiler.calls
    _, again = confirmed(compiler, monkeypatch)
    assert compiler.calls == calls
    assert all(row.compiled is not None and row.compiled.cached for row in again.plans)
    assert [row.chosen for row in again.plans] == [row.chosen for row in first.plans]


def test_another_compiler_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 + number))
    confirmed(compiler, monkeypatch)
    calls = compiler.calls
    monkeypatch.setattr("toast.pipeline.confirm.confirm.compiler_version", lambda _: "libtpu 2")
    confirmed(compiler, monkeypatch)
    assert compiler.calls == 2 * calls


def test_a_broken_cache_is_no_error(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    compiler = Compiler(lambda number: (10, 5 + number))
    confirmed(compiler, monkeypatch)
    for path in (folder / "toast" / "compiled").iterdir():
        path.write_text("{")
    calls = compiler.calls
    confirmed(compiler, monkeypatch)
    assert compiler.calls == 2 * calls


def test_given_decisions_are_compiled_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 + number))
    plan, _ = confirmed(compiler, monkeypatch)
    wanted = tuple(plan.choices[0].decisions)
    other, found = confirmed(compiler, monkeypatch, decisions=wanted)
    assert [row.kind for row in found.plans] == ["answer"]
    assert tuple(found.plans[0].decisions) == wanted
    assert other.fits


def test_the_report_has_predicted_beside_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(lambda number: (10, 5 if number == 3 else 9))
    plan, found = confirmed(compiler, monkeypatch)
    text = as_text(plan)
    assert "Compiled for tpu-v5e:2x4: 5 ms a step, 10.00 MiB per device, fits." in text
    assert "Compiled by libtpu 1 for tpu-v5e:2x4" in text
    assert "Search 2, as a control was the best before it" in text
    assert sentence(found) in text
    assert Plan.from_json(plan.to_json()) == plan


def test_with_an_overlap_the_makespan_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = confirmed(Compiler(lambda number: (10, 5 + number)), monkeypatch, overlap=0.5)
    assert found.time == "makespan"
    assert found.chosen is not None
    assert found.chosen.compiled is not None
    assert found.chosen.compiled.estimate_seconds == found.chosen.compiled.makespan_seconds
