"""`toast explain`: a plan that was written earlier, explained."""

from __future__ import annotations

from pathlib import Path

import typer
from pydantic import TypeAdapter

from toast.analysis.errors import InvalidRequest
from toast.explain.report import render_explanation
from toast.plans.explanation import Explanation, Shortfall
from toast.plans.report import make_console
from toast.verify.verification import read_plan

_PARTS = TypeAdapter(dict[str, Explanation | Shortfall | None])


def print_explanation(path: Path, *, as_json: bool, rows: int) -> None:
    """The tables, or as JSON `explanation` and `shortfall` of the plan at `path`.

    Raises InvalidRequest for a plan without an explanation.
    """
    plan = read_plan(path)
    if plan.explanation is None:
        raise InvalidRequest(
            f"The plan at {path} holds no explanation.",
            "An earlier version wrote it; plan the module again.",
        )
    if as_json:
        parts = {"explanation": plan.explanation, "shortfall": plan.shortfall}
        typer.echo(_PARTS.dump_json(parts, indent=2).decode())
    else:
        make_console().print(render_explanation(plan, plan.explanation, rows))
