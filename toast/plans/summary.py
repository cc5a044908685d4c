"""`summary.json`: the few figures of a plan that lists show, of a size that anybody may read.

The engine writes it beside `plan.json` once the plan fits its schema. A server reads the summary
and never the plan: that of a module with many arguments is hundreds of megabytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toast.plans.costs import Bands, FitVerdict
from toast.plans.record import Record

if TYPE_CHECKING:
    from toast.plans.plan import Plan

MAX_BYTES = 64 << 10
_SENTENCES, _CHARACTERS = 32, 500


class PlanSummary(Record):
    """Fields as in `plan.json`; `advice` says in words what would fit."""

    fits: bool
    verdict: FitVerdict
    step_seconds: float
    unsharded_step_seconds: float
    peak_bytes: int
    bands: Bands | None = None
    memory_bytes: int
    advice: list[str]
    termination: str

    @classmethod
    def of(cls, plan: Plan) -> PlanSummary:
        """That of a plan, its sentences cut to what a list can show."""
        from toast.plans.advice_report import advice_sentences  # tables, which no server draws

        advice = None if plan.shortfall is None else plan.shortfall.advice
        sentences = [] if advice is None else advice_sentences(advice)
        return cls(
            fits=plan.fits,
            verdict=plan.verdict,
            step_seconds=plan.predicted.step_seconds,
            unsharded_step_seconds=plan.unsharded.step_seconds,
            peak_bytes=plan.predicted.peak_bytes,
            bands=plan.predicted.bands,
            memory_bytes=plan.memory_bytes,
            advice=[_cut(sentence) for sentence in sentences[:_SENTENCES]],
            termination=plan.search.termination,
        )


def read_summary(path: Path) -> PlanSummary:
    """Read a summary; raises `ValueError` for one that is too large or does not fit its schema."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"The summary has more than {MAX_BYTES:,} bytes.")
    return PlanSummary.model_validate_json(data)


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= _CHARACTERS else sentence[: _CHARACTERS - 3] + "..."
