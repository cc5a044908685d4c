"""`toast ci`: its flags are in `app`; here is what it does, writes and prints."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import typer

from toast.analysis.errors import InvalidRequest, ToastError
from toast.ci.annotations import workflow_commands
from toast.ci.baseline import AcceptedFigures, read_baseline
from toast.ci.budget import Budget, read_budget
from toast.ci.gate import (
    EXIT_NOT_PLANNED,
    CiReport,
    judge_model,
    new_baseline,
    version_notes,
)
from toast.ci.junit import junit
from toast.ci.markdown import markdown
from toast.ci.planning import Planned, plan_here, plan_on_service
from toast.ci.sarif import sarif
from toast.ci.tables import gate_document, render_gate
from toast.cli.terminal import Answer, ProgressBar
from toast.client import Client
from toast.plans.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CiOptions:
    """The flags of `toast ci`."""

    budget: Path
    server: str | None
    key: str | None
    baseline: Path | None
    update: bool
    only: tuple[str, ...]
    summary: Path | None
    junit: Path | None
    sarif: Path | None
    output: Path | None


def check_budget(options: CiOptions, answer: Answer) -> int:
    """Plan, compare, print, write what was asked for; the exit code."""
    everything = read_budget(options.budget)
    budget = everything.only(options.only) if options.only else everything
    path = options.baseline or budget.baseline
    old = read_baseline(path)
    with answer.progress() as bar, closing(_planned(budget, options, bar)) as found:
        compared = None if options.update else old
        models = tuple(
            judge_model(model, _kept(options.output, model.name, plan), compared)
            for model, plan in found
        )
    notes = () if compared is None else version_notes(compared)
    report = CiReport(budget=budget, models=models, notes=notes)
    answer.tables(render_gate(report))
    answer.document(json.dumps(gate_document(report), indent=2))
    _write_reports(report, options)
    if options.update:
        _update(report, old, everything, path, answer)
    return report.exit_code


def _planned(
    budget: Budget, options: CiOptions, bar: ProgressBar
) -> Generator[Planned, None, None]:
    if options.server is None:
        yield from plan_here(budget.models, bar.stage, bar.update)
        return
    with Client(options.server, options.key) as client:
        yield from plan_on_service(client, budget.models, bar.stage)


def _kept(folder: Path | None, name: str, found: Plan | ToastError) -> Plan | ToastError:
    """The plan, written to a folder of the model's name where plans are to be kept."""
    if folder is not None and isinstance(found, Plan):
        _write(folder / name / "plan.json", found.to_json(), "-o")
    return found


def _write_reports(report: CiReport, options: CiOptions) -> None:
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    if options.summary is not None:
        _write(options.summary, markdown(report), "--summary")
    if options.junit is not None:
        _write(options.junit, junit(report), "--junit")
    if options.sarif is not None:
        _write(options.sarif, sarif(report, root), "--sarif")
    if step := os.environ.get("GITHUB_STEP_SUMMARY"):
        # Steps before this one may have written to it.
        with Path(step).open("a", encoding="utf-8") as file:
            file.write(markdown(report))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(report, root):
            typer.echo(line, err=True)


def _update(
    report: CiReport, old: AcceptedFigures, everything: Budget, path: Path, answer: Answer
) -> None:
    if report.exit_code == EXIT_NOT_PLANNED:
        typer.echo(f"{path} was left as it was: not every model was planned.", err=True)
        return
    new_baseline(report, old, everything).write(path)
    answer.written(path, f"Written to {path}; commit it.")


def _write(path: Path, text: str, flag: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}.", f"Give another with {flag}."
        ) from None
