"""The benchmark of the search's settings: what is tried, what a run keeps, what the page says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.search_settings import running, summary
from benchmarks.search_settings.__main__ import DATA, main
from benchmarks.search_settings.document import write_page
from benchmarks.search_settings.problems import CASES, Case
from benchmarks.search_settings.running import CHECKPOINTS, Curve, one_run, run
from benchmarks.search_settings.summary import Experiment
from benchmarks.search_settings.variants import (
    BASE,
    COMBINED,
    FORMULAS,
    NAMES,
    ONE_AT_A_TIME,
    VIRTUAL_LOSS,
    Variant,
    combined,
    one_value,
    variants,
)
from tests.modules import evaluator_of, text
from toast.costmodel.evaluator import Evaluator
from toast.search.actions import action_space
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Progress


def problem() -> Problem:
    evaluator: Evaluator = evaluator_of(text("attention"), "a=2,b=2")
    return Problem(
        evaluator=evaluator, reward=evaluator.reward(1e12), actions=action_space(evaluator)
    )


def test_the_base_and_the_defaults_are_among_what_is_tried() -> None:
    for name, values in {**ONE_AT_A_TIME, "virtual_loss": VIRTUAL_LOSS}.items():
        assert getattr(BASE, name) in values
    assert BASE.exploration in FORMULAS[BASE.selection, BASE.shaping]
    assert SearchSettings() in [variant.settings for variant in combined(BASE)]
    assert {"selection", "shaping", "exploration", *ONE_AT_A_TIME, "virtual_loss"} == set(NAMES)


def test_variants_differ_from_the_base_in_what_they_try_alone() -> None:
    default = Variant(part="", settings=BASE).values
    for variant in variants():
        changed = {name for name, value in variant.values.items() if value != default[name]}
        allowed = {"selection", "shaping", "exploration"}
        if variant.part == "together":
            allowed = {name for changes in COMBINED for name in changes}
        elif variant.part != "formula":
            allowed = {variant.part, "threads"}
        assert changed <= allowed | {"helpers"}
        assert variant.settings.threads == (2 if variant.part == "virtual_loss" else 1)


def test_equal_settings_have_equal_keys_and_seeds_do_not() -> None:
    one, *_ = one_value(SearchSettings(), "discount", (SearchSettings().discount,))
    assert one.key == Variant(part="formula", settings=SearchSettings()).key
    assert one.key != Variant(part="", settings=replace(SearchSettings(), seed=1)).key


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert Case(model="gpt", mesh="x=2,y=2,z=2").name == "gpt 2x2x2"


def test_a_curve_keeps_the_best_cost_at_each_checkpoint_and_ends_a_run() -> None:
    curve = Curve(3_000)
    for evaluations, cost in ((500, 0.9), (1_500, 0.8), (2_500, 0.5)):
        assert not curve.full()
        curve.watch(Progress(stage="search", evaluations=evaluations, best_cost=cost))
    curve.watch(Progress(stage="search", evaluations=3_010, best_cost=0.4))
    assert curve.full()
    costs = curve.costs(0.4)
    assert [costs[str(point)] for point in CHECKPOINTS] == [0.9, 0.9, 0.8, 0.4]


def test_a_run_keeps_its_values_and_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, built = Case(model="tiny", mesh="a=2,b=2"), []

    def build(_: Case) -> Problem:
        built.append(case)
        return problem()

    def few() -> list[Variant]:
        base = replace(BASE, rollouts=200, round_rollouts=100, helpers=False)
        return [*one_value(base, "discount", (0.9, 1.0)), *one_value(base, "stop_chance", (0.2,))]

    monkeypatch.setattr(running, "CASES", (case,))
    monkeypatch.setattr(running, "build", build)
    monkeypatch.setattr(running, "variants", few)
    data = tmp_path / "runs.jsonl"
    assert run(data, None, None) == 3
    assert run(data, None, None) == 0
    assert run(data, ["discount"], 0.0) == 0
    assert built == [case]
    records = read_records(data)
    assert {record["values"]["discount"] for record in records} == {0.9, 0.998, 1.0}
    assert all(record["cost"] <= 1.0 and record["evaluations"] > 0 for record in records)


def test_the_rounds_alone_stop_at_their_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ALONE_EVALUATIONS", 300)
    settings = replace(SearchSettings(), helpers=False)
    record = one_run(CASES[0], problem(), Variant(part="", settings=settings))
    assert 300 <= record["evaluations"] < 600


def record(case: str, cost: float, settings: SearchSettings, seed: int = 0) -> dict[str, Any]:
    variant = Variant(part="", settings=replace(settings, seed=seed))
    return {
        "key": f"{case}: {variant.key}",
        "case": case,
        "values": variant.values,
        "seed": seed,
        "cost": cost,
        "curve": {str(point): 2 * cost for point in CHECKPOINTS},
        "evaluations": 100,
        "seconds": 0.5,
    }


def test_regret_is_the_mean_log_of_cost_over_best(monkeypatch: pytest.MonkeyPatch) -> None:
    good, poor = replace(BASE, helpers=False), replace(BASE, helpers=False, discount=0.9)
    tried = [Variant(part="", settings=one) for one in (good, replace(good, seed=1), poor)]
    monkeypatch.setattr(summary, "variants", lambda: tried)
    runs = Experiment(
        [
            record("one", 0.5, good),
            record("one", 0.5, good, seed=1),
            record("one", 0.5, poor),
            record("two", 0.2, poor),
            record("two", 0.4, good),
            record("two", 0.2, good, seed=1),
            record("three", 0.1, good),
        ]
    )
    assert runs.best == {"one": 0.5, "two": 0.2, "three": 0.1}
    assert runs.cases[False] == {"one", "two"}
    found = runs.regret(tried[0])
    assert found is not None
    assert found.runs == 4
    assert found.mean == pytest.approx(math.log(2) / 4)
    assert found.worst == pytest.approx(math.log(2))
    assert found.found == pytest.approx(3 / 4)
    early = runs.regret(tried[0], at=1_000)
    assert early is not None
    assert early.mean == pytest.approx(found.mean + math.log(2))
    assert runs.regret(Variant(part="", settings=replace(good, discount=0.5))) is None


def test_the_page_marks_the_base_and_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "runs.jsonl"
    both = [replace(BASE, helpers=helpers) for helpers in (False, True)]
    monkeypatch.setattr(summary, "variants", lambda: [Variant(part="", settings=s) for s in both])
    for settings in both:
        append_record(data, record("one", 0.5, settings))
    page, plot = write_page(data, tmp_path / "docs")
    words = page.read_text()
    assert plot.name in words
    assert "**the defaults**" in words
    assert f"| **{BASE.stop_chance:g}** | 0.00% | 100% | 100 |" in words
    assert plot.read_bytes() == write_page(data, tmp_path / "again")[1].read_bytes()


def test_the_committed_runs_make_a_page(tmp_path: Path) -> None:
    assert main(["write", "--docs", str(tmp_path)]) == 0
    runs = Experiment(read_records(DATA))
    assert len(runs.cases[False]) >= 5
    tried = [runs.regret(one) for one in combined(replace(BASE, helpers=False))]
    default = runs.regret(Variant(part="", settings=replace(SearchSettings(), helpers=False)))
    assert default is not None
    assert default.mean <= min(found.mean for found in tried if found is not None) + 0.005
