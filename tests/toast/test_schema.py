"""The JSON Schema of `plan.json` is what the model says, and plans fit it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from tests.toast.samples import make_plan
from toast.plans.plan import Plan
from toast.plans.schema import schema_text

SCHEMA_1 = Path(__file__).parent / "plan_schema_1.json"
"""What `toast plan --mesh data=2,model=2 --device tpu-v5e --rollouts 20` of version 0.2.0 wrote for
the module of `samples.py`."""
COMMITTED = Path(__file__).parents[2] / "docs" / "plan.schema.json"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(COMMITTED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_committed_schema_is_the_models() -> None:
    assert COMMITTED.read_text() == schema_text(), "run: toast schema > docs/plan.schema.json"


def test_a_plan_fits(validator: jsonschema.Draft202012Validator) -> None:
    text = make_plan().to_json()
    validator.validate(json.loads(text))
    assert json.loads(text)["schema"] == 2
    assert Plan.from_json(text) == make_plan()


def test_a_plan_of_schema_1_is_read_and_calls_its_kernels_fusions(
    validator: jsonschema.Draft202012Validator,
) -> None:
    old = json.loads(SCHEMA_1.read_text())
    read = Plan.from_json(SCHEMA_1.read_bytes())
    validator.validate(json.loads(read.to_json()))
    assert read.explanation is not None
    rows = [row.model_dump() for row in read.explanation.fusions]
    for row, of_old in zip(rows, old["explanation"]["kernels"], strict=True):
        assert row.pop("fusions") == of_old.pop("kernels")
        assert row == of_old
    assert read.explanation.other_fusions.model_dump() == old["explanation"]["other_kernels"]
    assert Plan.from_json(read.to_json()) == read


def test_a_plan_of_schema_1_may_explain_nothing() -> None:
    old = json.loads(SCHEMA_1.read_text()) | {"explanation": None}
    assert Plan.model_validate(old).explanation is None


def test_a_plan_whose_explanation_is_damaged_does_not_fit() -> None:
    old = json.loads(SCHEMA_1.read_text())
    old["explanation"]["kernels"] = ["no row"]
    with pytest.raises(ValidationError, match=r"explanation\.fusions\.0"):
        Plan.model_validate(old)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 3),
        (("colour",), "red"),
        (("mesh", "axes"), [{"name": "data", "size": 0}]),
        (("search", "termination"), "bored"),
        (("collectives",), [{"kind": "gossip"}]),
        (("predicted", "peak_bytes"), "much"),
    ],
)
def test_what_is_no_plan_does_not_fit(
    validator: jsonschema.Draft202012Validator, path: tuple[str, ...], value: Any
) -> None:
    plan = json.loads(make_plan().to_json())
    target = plan
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert not validator.is_valid(plan)
