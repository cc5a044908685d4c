"""Rewritings that were planned, as rows of `plan.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toast.costmodel.evaluator import Cost
from toast.pipeline.variants import Variant
from toast.plans.time import RewritingTried
from toast.search.rewritings import PlannedRewriting


def rows_of(
    planned: Sequence[PlannedRewriting[Variant]], refused: Mapping[Variant, str]
) -> list[RewritingTried]:
    """What was planned with what it takes, then what could not be had with the reason."""
    found = [with_cost(_row(one.rewriting), one.cost, one.badness()[0] <= 0) for one in planned]
    return [*found, *(_row(v).model_copy(update={"reason": why}) for v, why in refused.items())]


def with_cost(row: RewritingTried, cost: Cost, fits: bool) -> RewritingTried:
    """A row with what a plan takes."""
    figures = {"step_seconds": cost.seconds, "peak_bytes": round(cost.peak), "fits": fits}
    return row.model_copy(update=figures)


def is_of(row: RewritingTried, variant: Variant) -> bool:
    """Whether a row is that of a variant."""
    return (row.microbatches, row.recompute) == (variant.microbatches, variant.words)


def _row(variant: Variant) -> RewritingTried:
    return RewritingTried(microbatches=variant.microbatches, recompute=variant.words)
