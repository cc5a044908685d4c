"""The JSON Schema of `plan.json` is what the model says, and plans fit it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.toast.samples import make_plan
from toast.plans.plan import Plan
from toast.plans.schema import schema_text

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
    assert json.loads(text)["schema"] == 1
    assert Plan.from_json(text) == make_plan()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
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
