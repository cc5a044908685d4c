"""`toast explain` and `toast diff`: plans that were written earlier, explained and compared."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from toast.analysis.errors import InvalidRequest
from toast.cli.terminal import Answer
from toast.explain.report import render_explanation
from toast.plans.diff import diff
from toast.plans.diff_report import render_diff
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.reasons_report import render_reasons
from toast.verify.verification import read_plan

_PARTS = TypeAdapter(dict[str, Explanation | Shortfall | None])


def print_reasons(path: Path, name: str, answer: Answer) -> None:
    """Why what `name` matches in the plan at `path` is as it is, as tables or as JSON."""
    found = read_plan(path).explain(name)
    answer.document(found.model_dump_json(indent=2))
    answer.tables(render_reasons(found))


def print_diff(a: Path, b: Path, answer: Answer) -> bool:
    """What differs between the plans at two paths; returns whether nothing does."""
    found = diff(read_plan(a), read_plan(b))
    answer.document(found.model_dump_json(indent=2))
    answer.tables(render_diff(found))
    return found.equal


def print_explanation(path: Path, answer: Answer, *, rows: int) -> None:
    """The tables, or as JSON `explanation` and `shortfall` of the plan at `path`.

    Raises InvalidRequest for a plan without an explanation.
    """
    plan = read_plan(path)
    if plan.explanation is None:
        raise InvalidRequest(
            f"The plan at {path} holds no explanation.",
            "An earlier version wrote it; plan the module again.",
        )
    parts = {"explanation": plan.explanation, "shortfall": plan.shortfall}
    answer.document(_PARTS.dump_json(parts, indent=2).decode())
    answer.tables(render_explanation(plan, plan.explanation, rows))
