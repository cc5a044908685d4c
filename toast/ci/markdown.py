"""What was found as Markdown, for the summary of a run or a comment on a change."""

from __future__ import annotations

from toast.ci.figures import FIGURES, FigureName, change, written
from toast.ci.gate import CiFinding, CiReport, ModelReport

_SIGNS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}  # noqa: RUF001 - the sign, not a letter


def markdown(report: CiReport) -> str:
    """A table of the models, then what is to be said of them."""
    sign = "✅" if report.exit_code == 0 else "❌"
    lines = [
        "## Sharding budget",
        "",
        f"{sign} {report.sentence}",
        "",
        "| model | mesh and chip | memory | step | communication | |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *(_row(model) for model in report.models),
    ]
    if report.findings or report.notes:
        lines.append("")
    lines += [_line(finding) for finding in report.findings]
    lines += [f"- {_SIGNS['note']} {escaped(note)}" for note in report.notes]
    return "\n".join(lines) + "\n"


def verdict_words(model: ModelReport) -> str:
    """How the gate ended for one model, in a word or two."""
    if model.figures is None:
        return "not planned"
    rules = [one.rule for one in model.findings if one.level == "error"]
    words = {"over-budget": "over budget", "does-not-fit": "does not fit"}
    return ", ".join(dict.fromkeys(words.get(rule, rule) for rule in rules)) or "within"


def figure_words(model: ModelReport, name: FigureName) -> str:
    """A figure with its change since the baseline; nothing for what was not planned."""
    if model.figures is None:
        return ""
    text = written(name, model.figures.value(name))
    if model.before is None:
        return text
    return f"{text} ({change(model.figures.value(name), model.before.value(name))})"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: it may come from a module."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    for mark in "|`*_[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def _row(model: ModelReport) -> str:
    request = model.model.request
    cells = [model.model.name, f"{request.mesh} on {request.device}"]
    cells += [figure_words(model, name) for name in FIGURES]
    sign = "❌" if model.failed else "✅"
    return "| " + " | ".join([*map(escaped, cells), f"{sign} {verdict_words(model)}"]) + " |"


def _line(finding: CiFinding) -> str:
    return f"- {_SIGNS[finding.level]} {escaped(f'{finding.message} {finding.hint}')}"
