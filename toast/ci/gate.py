"""What a budget and a baseline say of the models that were planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from toast.analysis.errors import ToastError
from toast.ci.baseline import AcceptedFigures, stored, version
from toast.ci.budget import Budget, BudgetedModel
from toast.ci.figures import FIGURES, FigureName, Figures, change, written
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.costs import FitVerdict
from toast.plans.plan import Plan

EXIT_WITHIN, EXIT_OVER, EXIT_NOT_PLANNED = 0, 1, 3

Level = Literal["error", "warning", "note"]
Rule = Literal[
    "over-budget", "regressed", "does-not-fit", "not-planned", "tight", "no-baseline", "improved"
]
RULES: dict[Rule, tuple[Level, str]] = {
    "over-budget": ("error", "A figure is above its limit."),
    "regressed": ("error", "A figure is above its baseline by more than the tolerance."),
    "does-not-fit": ("error", "The best plan needs more memory than the chips have."),
    "not-planned": ("error", "The model could not be planned."),
    "tight": ("warning", "The chips' memory is within the band of the predicted memory."),
    "no-baseline": ("note", "There is no baseline to compare with."),
    "improved": ("note", "A figure is below its baseline by more than the tolerance."),
}
"""Each rule with its level and what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CiFinding:
    """One thing to say of a model, at a line of the budget."""

    rule: Rule
    model: str
    message: str
    line: int
    hint: str = ""

    @property
    def level(self) -> Level:
        """How much it matters: only an error fails the gate."""
        return RULES[self.rule][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """A model's figures (None where it was not planned), those before, and what is to be said."""

    model: BudgetedModel
    figures: Figures | None = None
    before: Figures | None = None
    verdict: FitVerdict | None = None
    findings: tuple[CiFinding, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any finding is an error."""
        return any(one.level == "error" for one in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CiReport:
    """All models of a run; `notes` are of none of them."""

    budget: Budget
    models: tuple[ModelReport, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def findings(self) -> tuple[CiFinding, ...]:
        """Of all models, in their order."""
        return tuple(one for model in self.models for one in model.findings)

    @property
    def exit_code(self) -> int:
        """Of the command: that something was not planned outweighs that something is over."""
        if any(one.rule == "not-planned" for one in self.findings):
            return EXIT_NOT_PLANNED
        return EXIT_OVER if any(model.failed for model in self.models) else EXIT_WITHIN

    @property
    def sentence(self) -> str:
        """The whole in one sentence."""
        count, failed = len(self.models), sum(model.failed for model in self.models)
        models = "1 model" if count == 1 else f"{count} models"
        return f"{models}: all within budget." if not failed else f"{failed} of {models} failed."


def version_notes(baseline: AcceptedFigures) -> tuple[str, ...]:
    """That a baseline was predicted by another version, which may price otherwise."""
    if not baseline.models or baseline.toast == version():
        return ()
    said = f"The baseline is by toast {baseline.toast or '(unknown)'}, and this is {version()}"
    return (f"{said}: figures may differ for that reason alone.",)


def judge_model(
    model: BudgetedModel, found: Plan | ToastError, baseline: AcceptedFigures | None
) -> ModelReport:
    """What is to be said of one model; a baseline of None is not compared with."""
    if isinstance(found, ToastError):
        return ModelReport(
            model=model,
            findings=(
                CiFinding(
                    rule="not-planned",
                    model=model.name,
                    message=f"{model.name} could not be planned: {found.message}",
                    line=model.line,
                    hint=found.hint,
                ),
            ),
        )
    figures = Figures.of(found)
    row = None if baseline is None else baseline.models.get(model.name)
    before = row.figures if row is not None and row.is_for(model.request) else None
    findings = [*_fit(model, found), *_limits(model, figures)]
    if before is not None:
        findings += _changes(model, figures, before)
    elif baseline is not None:
        findings.append(_no_baseline(model, row is not None))
    return ModelReport(
        model=model,
        figures=figures,
        before=before,
        verdict=found.verdict,
        findings=tuple(findings),
    )


def new_baseline(report: CiReport, old: AcceptedFigures, everything: Budget) -> AcceptedFigures:
    """The old baseline with the figures of this run; models that left the budget are dropped."""
    found = {
        one.model.name: stored(one.model.request, one.figures)
        for one in report.models
        if one.figures is not None
    }
    return old.with_models(found, {model.name for model in everything.models})


def _fit(model: BudgetedModel, plan: Plan) -> Iterator[CiFinding]:
    if plan.verdict == "fits":
        return
    peak, memory = plan.predicted.peak_text, format_bytes(plan.memory_bytes)
    if plan.verdict == "tight":
        text = f"{model.name} is tight: {peak} of {memory} per device."
        yield CiFinding(rule="tight", model=model.name, message=text, line=model.line)
    else:
        text = f"{model.name} does not fit: the best plan takes {peak} of {memory} per device."
        hint = "`toast plan` on it says what would fit."
        yield CiFinding(
            rule="does-not-fit", model=model.name, message=text, line=model.line, hint=hint
        )


def _limits(model: BudgetedModel, figures: Figures) -> Iterator[CiFinding]:
    for name in FIGURES:
        limit, value = model.limits.value(name), figures.value(name)
        if limit is None or value <= limit:
            continue
        above = change(value, limit).lstrip("+")
        text = f"{model.name}: {name} of {written(name, value)} is {above} above its limit of "
        yield CiFinding(
            rule="over-budget",
            model=model.name,
            message=f"{text}{written(name, limit)}.",
            line=model.lines[name],
            hint="Look at the change that did it, or raise the limit.",
        )


def _changes(model: BudgetedModel, figures: Figures, before: Figures) -> Iterator[CiFinding]:
    for name in FIGURES:
        value, old, allowed = figures.value(name), before.value(name), model.allowed(name)
        if value > old * (1 + allowed):
            yield _change(model, "regressed", name, value, old)
        elif value < old * (1 - allowed):
            yield _change(model, "improved", name, value, old)


def _change(
    model: BudgetedModel, rule: Rule, name: FigureName, value: float, old: float
) -> CiFinding:
    allowed = f"{model.allowed(name):.2%}".replace(".00%", "%").replace("%", " %")
    moved = "regressed" if rule == "regressed" else "improved"
    text = f"{model.name}: {name} {moved} from {written(name, old)} to {written(name, value)}"
    why = f"{text} ({change(value, old)}, tolerance {allowed})."
    hint = "Where that is meant, accept it with --update-baseline."
    return CiFinding(rule=rule, model=model.name, message=why, line=model.line, hint=hint)


def _no_baseline(model: BudgetedModel, other: bool) -> CiFinding:
    what = (
        f"The baseline of {model.name} is of another mesh or chip, so nothing was compared."
        if other
        else f"{model.name} has no baseline yet."
    )
    hint = "Write it with --update-baseline and commit it."
    return CiFinding(rule="no-baseline", model=model.name, message=what, line=model.line, hint=hint)
