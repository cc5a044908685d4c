"""`toast.diff` and `toast diff A B`: what differs between two plans of one module."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import toast
from tests.modules import text
from tests.toast.planned import gemma_text, request
from tests.toast.samples import make_plan as sample
from toast.analysis.errors import InvalidRequest
from toast.cli import app
from toast.pipeline.plan_module import make_plan
from toast.plans.diff import PlanDiff, diff
from toast.plans.diff_report import diff_text
from toast.plans.plan import Plan
from toast.plans.result import PlanResult


@cache
def result(mesh: str, rollouts: int = 200) -> PlanResult:
    return make_plan(gemma_text(), request(mesh=mesh, rollouts=rollouts))


def plan(mesh: str = "data=2,model=2") -> Plan:
    return result(mesh).plan


def test_a_plan_is_equal_to_itself() -> None:
    found = toast.diff(result("data=2,model=2"), plan())
    assert found.equal
    assert str(found) == "The plans are the same."


def test_another_mesh_differs_in_setting_figures_and_layouts() -> None:
    a, b = plan(), plan("data=8")
    found = diff(a, b)
    assert not found.equal
    assert found.same_module
    assert ("mesh", "data=2,model=2", "data=8") in {(x.what, x.a, x.b) for x in found.settings}
    figures = {row.what: row for row in found.figures}
    assert (figures["step"].a, figures["step"].b) == (
        a.predicted.step_seconds,
        b.predicted.step_seconds,
    )
    assert (figures["peak"].unit, figures["peak"].b) == ("bytes", b.predicted.peak_bytes)
    for row in found.traffic:
        mine = [one for one in a.collectives if one.kind == row.kind]
        assert row.bytes_a == sum(one.bytes for one in mine)
        assert row.count_a == sum(one.count for one in mine)
    pairs = zip((*a.arguments, *a.results), (*b.arguments, *b.results), strict=True)
    changed = [x for x, y in pairs if x.spec != y.spec]
    assert sum(row.count for row in found.layouts) == len(changed)
    assert found.unchanged_layouts == len(a.arguments) + len(a.results) - len(changed)


def test_decisions_of_one_plan_alone_are_told() -> None:
    a = plan()
    less = a.model_copy(update={"decisions": a.decisions[:-1]})
    last = a.decisions[-1]
    bits = f":{last.resolution}" if last.resolution else ""
    assert diff(a, less).only_a == [f"{last.colour}={last.axis}{bits}"]
    assert diff(less, a).only_b == [f"{last.colour}={last.axis}{bits}"]
    turned = diff(a, a.model_copy(update={"decisions": a.decisions[::-1]}))
    assert (turned.reordered, turned.only_a, turned.equal) == (True, [], False)
    assert "in another order" in diff_text(turned)


def test_layers_that_change_alike_are_one_row() -> None:
    a = plan()
    whole = [one.model_copy(update={"spec": [[]] * len(one.shape)}) for one in a.arguments]
    found = diff(a, a.model_copy(update={"arguments": whole}))
    row = next(row for row in found.layouts if "'gate'" in row.name and "'params'" in row.name)
    assert (row.kind, row.count) == ("argument", 2)
    assert row.name == "state['params']['layers'][*]['gate']"
    assert row.b == [[], []]


def test_plans_of_other_modules_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"different modules: of their arguments, .* stands"):
        diff(plan(), sample())
    few = sample(arguments=sample().model_dump()["arguments"][:1])
    with pytest.raises(InvalidRequest, match="2 arguments against 1"):
        diff(sample(), few)


def test_a_module_that_differs_in_other_ways_is_told() -> None:
    other = sample(module={"sha256": "1" * 64, "ops": 4, "arguments": 2})
    found = diff(sample(), other)
    assert (found.same_module, found.equal) == (False, True)
    assert "not the same to the letter" in str(found)


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit_the_terminal(width: int) -> None:
    lines = diff_text(diff(plan(), plan("data=8")), width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.fixture
def written(tmp_path: Path) -> Path:
    for name, mesh in (("a", "data=2,model=2"), ("b", "data=8")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text(plan(mesh).to_json())
    other = make_plan(text("mlp"), request(mesh="data=2", rollouts=20)).plan
    (tmp_path / "other.json").write_text(other.to_json())
    return tmp_path


def run(*arguments: Path | str) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, arguments)])


def test_the_exit_code_says_whether_plans_differ(written: Path) -> None:
    a, b = written / "a", written / "b" / "plan.json"
    same = run(a, a)
    assert (same.exit_code, same.stdout) == (0, "The plans are the same.\n")
    other = run(a, b)
    assert other.exit_code == 1
    assert "data=2,model=2" in other.stdout
    quiet = run(a, b, "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (1, "", "")
    as_json = run(a, b, "--json")
    assert as_json.exit_code == 1
    assert PlanDiff.model_validate(json.loads(as_json.stdout)) == diff(plan(), plan("data=8"))


def test_what_cannot_be_compared_is_refused(written: Path) -> None:
    other = run(written / "a", written / "other.json")
    assert other.exit_code == 2
    assert "different modules" in other.stderr
    assert run(written / "a", written / "none").exit_code == 2
