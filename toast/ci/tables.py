"""What was found as a table for a terminal and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from toast.ci.figures import FIGURES
from toast.ci.gate import CiReport, ModelReport
from toast.ci.markdown import figure_words, verdict_words
from toast.plans.tables import Name, plain_table

_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def render_gate(report: CiReport) -> Group:
    """The models, then what is to be said of them, then the whole in a sentence."""
    table = plain_table(
        "Budget", "model", "mesh", "chip", ">memory", ">step", ">communication", "verdict"
    )
    for model in report.models:
        request, style = model.model.request, "red" if model.failed else "green"
        table.add_row(
            Name(model.model.name),
            request.mesh,
            request.device,
            *(figure_words(model, name) for name in FIGURES),
            Text(verdict_words(model), style=style),
        )
    parts: list[RenderableType] = [table, ""]
    for one in report.findings:
        parts.append(Text.assemble((f"{one.level}: ", _STYLES[one.level]), one.message))
        if one.hint:
            parts.append(Text(f"  {one.hint}"))
    parts += [Text.assemble(("note: ", _STYLES["note"]), note) for note in report.notes]
    return Group(*parts, Text(report.sentence, style="bold"))


def gate_document(report: CiReport) -> dict[str, Any]:
    """The same for programs."""
    return {
        "budget": str(report.budget.path),
        "exit_code": report.exit_code,
        "models": [_model(model) for model in report.models],
        "notes": list(report.notes),
    }


def _model(report: ModelReport) -> dict[str, Any]:
    model = report.model
    return {
        "name": model.name,
        "module": str(model.module),
        "mesh": model.request.mesh,
        "device": model.request.device,
        "verdict": verdict_words(report),
        "fits": report.verdict,
        "figures": None if report.figures is None else report.figures.to_dict(),
        "baseline": None if report.before is None else report.before.to_dict(),
        "limits": {name: model.limits.value(name) for name in FIGURES},
        "findings": [
            {"rule": one.rule, "level": one.level, "message": one.message, "line": one.line}
            for one in report.findings
        ],
    }
