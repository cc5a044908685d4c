"""The head of a plan's page, which a notebook shows too: what it costs, and what to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from toast.page.rendering import render_template
from toast.plans.costs import FitVerdict, PredictedCost
from toast.plans.plan import Plan
from toast.plans.report import bands_sentence, headline
from toast.plans.rewritings_report import rewriting_sentences
from toast.plans.slices_report import slices_sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is said of the plan, the layouts that it is compared with, and its notices.

    The last of the `sentences` has what it costs; what is `further` said comes after them.
    """

    sentences: list[str]
    further: list[str]
    costs: list[tuple[str, PredictedCost]]
    notices: list[str]
    behind: str
    memory_bytes: int
    verdict: FitVerdict

    @property
    def overlaps(self) -> bool:
        """Whether communication hides behind computation."""
        return any(cost.overlapped_seconds for _, cost in self.costs)


def make_head(plan: Plan) -> Head:
    """The head of a plan."""
    notices = list(plan.warnings)
    notices += [
        f"{row.op}, {row.count:,} times: {row.reason.replace('_', ' ')}" for row in plan.unpriced
    ]
    further = [slices_sentence(plan), *rewriting_sentences(plan)]
    compared = [(row.name.replace("_", " "), row) for row in plan.baselines]
    return Head(
        sentences=headline(plan).plain.splitlines(),
        further=[sentence for sentence in further if sentence],
        costs=[("this plan", plan.predicted), ("unsharded", plan.unsharded), *compared],
        notices=notices,
        behind=bands_sentence(plan),
        memory_bytes=max(plan.memory_bytes, 1),
        verdict=plan.verdict,
    )


def head_html(plan: Plan) -> str:
    """The head alone; it needs no style sheet and draws nothing."""
    return render_template(__package__.rpartition(".")[0], "notebook.html", head=make_head(plan))
