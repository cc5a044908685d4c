"""Reads what older versions wrote to `plan.json`: one step for each schema that came before."""

from __future__ import annotations

from typing import Any

SCHEMA = 2
"""The schema of today."""
_ESTIMATES = ("microbatches", "recompute")


def migrated(plan: dict[str, Any]) -> dict[str, Any]:
    """The fields of a plan as the schema of today has them; what is no plan stays as it is."""
    plan = _without_estimates(plan)
    return _from_1(plan) if plan.get("schema") == 1 else plan


def _without_estimates(plan: dict[str, Any]) -> dict[str, Any]:
    """Advice once held estimates of rewritings, in place of rewritings that were planned."""
    shortfall = plan.get("shortfall")
    advice = shortfall.get("advice") if isinstance(shortfall, dict) else None
    if not isinstance(shortfall, dict) or not isinstance(advice, dict):
        return plan
    kept = {key: value for key, value in advice.items() if key not in _ESTIMATES}
    return {**plan, "shortfall": {**shortfall, "advice": kept}}


def _from_1(plan: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 calls the launched fusions of an explanation kernels."""
    explanation = plan.get("explanation")
    if not isinstance(explanation, dict):
        return {**plan, "schema": SCHEMA}
    renamed = {"kernels": "fusions", "other_kernels": "other_fusions"}
    found = {renamed.get(name, name): value for name, value in explanation.items()}
    if isinstance(rows := found.get("fusions"), list):
        found["fusions"] = [_renamed_row(row) for row in rows]
    return {**plan, "schema": SCHEMA, "explanation": found}


def _renamed_row(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    return {"fusions" if name == "kernels" else name: value for name, value in row.items()}
