"""The JSON Schema of `plan.json`, generated from the model; `docs/plan.schema.json` is a copy."""

from __future__ import annotations

import json

from toast.plans.plan import Plan


def schema_text() -> str:
    """The schema as it is committed."""
    schema = Plan.model_json_schema(by_alias=True, mode="serialization")
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(draft | schema, indent=2) + "\n"
