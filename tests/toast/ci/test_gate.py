"""What the gate says of plans, and the forms in which it says it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from tests.toast.ci.budgets import PLAIN, budget_file, planned
from toast.analysis.errors import InvalidModule, ToastError
from toast.ci.annotations import workflow_commands
from toast.ci.baseline import AcceptedFigures, read_baseline
from toast.ci.budget import Budget, read_budget
from toast.ci.gate import CiReport, judge_model, new_baseline, version_notes
from toast.ci.junit import junit
from toast.ci.markdown import markdown
from toast.ci.sarif import sarif
from toast.plans.plan import Plan

GIB = 1 << 30
SARIF_SCHEMA = os.environ.get("TOAST_SARIF_SCHEMA", "")
"""A copy of `sarif-schema-2.1.0.json`, which OASIS publishes and this repository does not hold."""


def budget_of(folder: Path, extra: str = "") -> Budget:
    return read_budget(budget_file(folder, PLAIN + extra))


def report_of(
    budget: Budget, found: Plan | ToastError, baseline: AcceptedFigures | None = None
) -> CiReport:
    model = judge_model(budget.models[0], found, baseline)
    return CiReport(budget=budget, models=(model,))


def rules(report: CiReport) -> list[str]:
    return [one.rule for one in report.findings]


def baseline_of(budget: Budget, plan: Plan) -> AcceptedFigures:
    return new_baseline(report_of(budget, plan), AcceptedFigures(), budget)


@pytest.mark.parametrize(
    ("limits", "over"),
    [
        ("memory = '1GiB', step = '250ms', communication = '1MiB'", []),
        ("memory = '1000MiB'", ["memory"]),
        ("step = '249ms'", ["step"]),
        ("communication = '1023KiB'", ["communication"]),
        ("memory = '1B', step = '1us', communication = '1B'", ["memory", "step", "communication"]),
    ],
)
def test_a_figure_above_its_limit_fails(tmp_path: Path, limits: str, over: list[str]) -> None:
    budget = budget_of(tmp_path, f"limits = {{ {limits} }}\n")
    report = report_of(budget, planned())
    assert rules(report) == ["over-budget"] * len(over)
    assert [one.message.split()[1] for one in report.findings] == over
    assert report.exit_code == (1 if over else 0)


@pytest.mark.parametrize(
    ("change", "expected", "code"),
    [
        ({}, [], 0),
        ({"step_seconds": 0.25 * 1.049}, [], 0),
        ({"step_seconds": 0.25 * 1.051}, ["regressed"], 1),
        ({"peak_bytes": GIB + 1}, ["regressed"], 1),
        ({"peak_bytes": GIB // 2}, ["improved"], 0),
        ({"sent": 2 << 20}, ["regressed"], 1),
    ],
)
def test_a_figure_may_be_above_its_baseline_by_the_tolerance(
    tmp_path: Path, change: dict[str, int], expected: list[str], code: int
) -> None:
    budget = budget_of(tmp_path, "tolerance = { step = '5%', memory = 0 }\n")
    report = report_of(budget, planned(**change), baseline_of(budget, planned()))
    assert rules(report) == expected
    assert report.exit_code == code


def test_communication_where_there_was_none_has_regressed(tmp_path: Path) -> None:
    budget = budget_of(tmp_path)
    report = report_of(budget, planned(), baseline_of(budget, planned(sent=0)))
    assert rules(report) == ["regressed"]
    assert "new" in report.findings[0].message


def test_a_plan_has_to_fit_its_chips(tmp_path: Path) -> None:
    budget = budget_of(tmp_path)
    report = report_of(budget, planned(fits=False, peak_bytes=17 * GIB))
    assert rules(report) == ["does-not-fit"]
    assert "17.00 GiB of 16.00 GiB" in report.findings[0].message
    assert report.exit_code == 1


def test_a_tight_plan_is_a_warning(tmp_path: Path) -> None:
    report = report_of(budget_of(tmp_path), planned(verdict="tight"))
    assert (rules(report), report.exit_code) == (["tight"], 0)
    assert report.findings[0].level == "warning"


def test_figures_of_another_mesh_are_not_compared(tmp_path: Path) -> None:
    old = baseline_of(budget_of(tmp_path), planned())
    other = read_budget(budget_file(tmp_path, PLAIN.replace("data=2", "data=4")))
    report = report_of(other, planned(step_seconds=9.0), old)
    assert (rules(report), report.exit_code) == (["no-baseline"], 0)
    assert "another mesh" in report.findings[0].message


def test_a_baseline_of_another_version_is_noted(tmp_path: Path) -> None:
    old = baseline_of(budget_of(tmp_path), planned())
    assert version_notes(old) == ()
    (note,) = version_notes(old.model_copy(update={"toast": "0.0.1"}))
    assert "0.0.1" in note


def test_what_was_not_planned_outweighs_what_is_over(tmp_path: Path) -> None:
    extra = "limits = { step = '1us' }\n[models.b]\nmodule='bad.mlir'\nmesh='data=2'\n"
    budget = budget_of(tmp_path, extra)
    first, second = budget.models
    models = (
        judge_model(first, planned(), None),
        judge_model(second, InvalidModule("Line 1 is no module.", "Write one."), None),
    )
    report = CiReport(budget=budget, models=models)
    assert rules(report) == ["over-budget", "not-planned"]
    assert report.exit_code == 3


def test_a_baseline_is_the_same_bytes_and_forgets_what_left(tmp_path: Path) -> None:
    budget, path = budget_of(tmp_path), tmp_path / "toast.baseline.json"
    row = baseline_of(budget, planned()).models["mlp"]
    old = AcceptedFigures(models={"gone": row})
    new_baseline(report_of(budget, planned()), old, budget).write(path)
    first = path.read_bytes()
    assert set(read_baseline(path).models) == {"mlp"}
    new_baseline(report_of(budget, planned()), read_baseline(path), budget).write(path)
    assert path.read_bytes() == first


@pytest.fixture
def report(tmp_path: Path) -> CiReport:
    """One figure over its limit, in words that every form has to escape."""
    budget = budget_of(tmp_path, "limits = { step = '1ms' }\n")
    model = judge_model(budget.models[0], planned(), AcceptedFigures())
    bad = judge_model(budget.models[0], InvalidModule('<b>&"|`\x01`100%:,\nno'), AcceptedFigures())
    return CiReport(budget=budget, models=(model, bad))


def test_markdown_has_a_row_a_model_and_no_markup_of_theirs(report: CiReport) -> None:
    text = markdown(report)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(report.models)
    assert "250 ms" in rows[2]
    assert "❌ over budget" in rows[2]
    assert "<b>" not in text
    assert all(line.count("|") - line.count("\\|") == 7 for line in rows)


def test_junit_has_a_case_a_model_with_what_failed(report: CiReport) -> None:
    root = ET.fromstring(junit(report))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "1")
    over, bad = root.iter("testcase")
    assert [child.get("type") for child in over.iter("failure")] == ["over-budget"]
    assert [child.get("type") for child in bad.iter("error")] == ["not-planned"]
    assert "\x01" not in junit(report)


def test_sarif_names_the_line_of_the_limit(report: CiReport, tmp_path: Path) -> None:
    log = json.loads(sarif(report, tmp_path))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    known = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert known[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "toast.budget.toml"
    written = (tmp_path / "toast.budget.toml").read_text().splitlines()
    assert "limits" in written[place["region"]["startLine"] - 1]


@pytest.mark.skipif(not SARIF_SCHEMA, reason="TOAST_SARIF_SCHEMA names no copy of OASIS's schema")
def test_sarif_fits_the_schema_of_oasis(report: CiReport, tmp_path: Path) -> None:
    schema = json.loads(Path(SARIF_SCHEMA).read_bytes())
    check = jsonschema.validators.validator_for(schema)(schema)
    log = json.loads(sarif(report, tmp_path))
    assert [error.message for error in check.iter_errors(log)] == []
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert [error.validator for error in check.iter_errors(log)]


def test_a_workflow_command_is_one_line(report: CiReport, tmp_path: Path) -> None:
    lines = workflow_commands(report, tmp_path)
    assert len(lines) == len(report.findings)
    for line in lines:
        assert "\n" not in line
        head, _, _ = line.removeprefix("::").partition("::")
        assert head.split(" ")[0] in ("error", "warning", "notice")
        assert "file=toast.budget.toml,line=" in head
    assert any("100%25:," in line for line in lines)
