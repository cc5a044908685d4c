"""`Plan.explain` and `toast explain DIR NAME`: layouts, decisions, alternatives and traffic."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.toast import transformer
from tests.toast.planned import request
from tests.toast.samples import make_plan as sample
from toast.analysis.errors import InvalidRequest
from toast.cli import app
from toast.pipeline.plan_module import make_plan
from toast.plans.alternatives import MovedTensors
from toast.plans.plan import Plan
from toast.plans.reasons import Reasons
from toast.plans.reasons_report import moved, signed_bytes, signed_seconds, text_of
from toast.plans.result import PlanResult
from toast.plans.words import path


@cache
def result() -> PlanResult:
    return make_plan(transformer.module(), request(mesh="data=2,model=2", rollouts=400))


def plan() -> Plan:
    return result().plan


def test_a_pattern_leads_to_layout_colours_decisions_and_alternatives() -> None:
    found = result().explain("params/layers/*/wo")
    (tensor,) = (one for one in found.tensors if one.kind == "argument")
    assert (tensor.name, tensor.count) == ("params['layers'][*]['wo']", transformer.LAYERS)
    argument = next(one for one in plan().arguments if one.name == "params['layers'][0]['wo']")
    assert [row.axes for row in tensor.dimensions] == argument.spec
    assert [row.size for row in tensor.dimensions] == argument.shape
    names = {colour.id: colour for colour in plan().colours}
    for row, group in zip(tensor.dimensions, argument.colours, strict=True):
        colour = names[group]
        assert row.colour == colour.name
        assert colour in found.colours
        assert set(row.decisions) <= set(colour.decisions)
        assert [plan().decisions[n - 1].axis for n in row.decisions] == row.axes
        assert row.demanded == []
    assert any(row.decisions for row in tensor.dimensions)
    assert any(colour.alternatives for colour in found.colours)


def test_what_a_decision_bought_is_told_from_the_one_before() -> None:
    rows = plan().explain("**").decisions
    assert [row.number for row in rows] == list(range(1, len(plan().decisions) + 1))
    assert rows[0].step_seconds_before == plan().unsharded.step_seconds
    for before, after in itertools.pairwise(rows):
        assert before.step_seconds_after == after.step_seconds_before
        assert before.peak_bytes_after == after.peak_bytes_before
    assert rows[-1].peak_bytes_after == plan().predicted.peak_bytes


def test_names_of_values_results_and_colours_are_understood() -> None:
    scores = plan().explain("attention/bqhk,bshk->bhqs of wq and wk")
    assert {row.name for row in scores.values} == {"attention/bqhk,bshk->bhqs of wq and wk"}
    assert scores.colours
    (logits,) = plan().explain("result/1/logits").tensors
    assert (logits.kind, logits.count) == ("result", 1)
    colour = plan().colours[0]
    assert [one.id for one in plan().explain(colour.name).colours] == [colour.id]
    assert plan().explain("0").tensors[0].name == plan().arguments[0].name


def test_collectives_of_a_weight_are_those_that_send_it() -> None:
    explanation = plan().explanation
    assert explanation is not None
    for row in explanation.collectives:
        found = plan().explain(row.value)
        assert row in found.collectives


def test_what_is_not_there_is_refused_with_what_is_near() -> None:
    with pytest.raises(InvalidRequest, match="Nothing in the plan matches") as error:
        plan().explain("params/layers/*/qw")
    assert "params/layers/1/wq" in error.value.hint
    with pytest.raises(InvalidRequest, match="earlier version"):
        sample().explain("w")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_tables_fit_the_terminal(width: int) -> None:
    text = text_of(plan().explain("params/layers/*/down"), width)
    assert max(map(len, text.splitlines())) <= width
    assert "Decisions behind it" in text
    assert "Instead of" in text


def test_printed_reasons_are_the_tables() -> None:
    found = plan().explain("params/head")
    assert str(found) == text_of(found)
    assert "params/head, argument: f32 64 x 512" in str(found)
    assert "Communication" in str(found)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "plan.json").write_text(plan().to_json())
    return tmp_path


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments])


def test_the_command_prints_what_python_does(written: Path) -> None:
    done = explain(str(written), "params/head")
    assert done.exit_code == 0
    assert done.stdout == f"{plan().explain('params/head')}\n"
    as_json = explain(str(written), "params/head", "--json")
    assert Reasons.model_validate(json.loads(as_json.stdout)) == plan().explain("params/head")
    assert explain(str(written), "params/head", "-q").stdout == ""


def test_the_command_refuses_what_is_not_there(written: Path) -> None:
    done = explain(str(written), "params/hat")
    assert done.exit_code == 2
    assert "Near it: params/head" in done.stderr


def test_differences_have_signs_and_steps_that_stand_for_several_have_braces() -> None:
    assert signed_seconds(-0.0012) == "-1.2 ms"
    assert signed_seconds(0.25) == "+250 ms"
    assert signed_bytes(-(2**30)) == "-1.00 GiB"
    assert path("state['mu','nu']['layers'][*]['w']") == "state/{mu,nu}/layers/*/w"
    assert path("opt.opt_state[0].mu,nu['h'][*].w") == "opt/opt_state/0/{mu,nu}/h/*/w"
    assert path("params['w']") == "params/w"
    assert path("model.layers[*].attn.kernel") == "model/layers/*/attn/kernel"
    assert path("mlp/dot_general with up (step.py:3)") == "mlp/dot_general with up (step.py:3)"


def test_what_would_move_has_braces_for_several() -> None:
    row = MovedTensors(name="o[0].mu,nu['h'][*]['key','query']", count=4, spec=[["data"], []])
    known = next(colour.alternatives[0] for colour in plan().colours if colour.alternatives)
    alternative = known.model_copy(update={"moved": [row], "others_moved": 0})
    assert moved(alternative) == "o/0/{mu,nu}/h/*/{key,query} P('data')"
