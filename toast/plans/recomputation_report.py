"""The layers that are recomputed, and what that saves and costs, in words and as a table."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.recomputation import RecomputedLayers, RecomputedPlan
from toast.plans.tables import plain_table
from toast.plans.time import RewritingTried

_WHAT = {"all": "made again", "products": "made again but for products"}


def sentence(group: RecomputedLayers) -> str:
    """What is made again of a group, and what is kept of it."""
    kept = f"{format_bytes(group.kept_bytes)} of {format_bytes(group.before_bytes)}"
    blocked = f"; these ops run once: {', '.join(group.blocked)}" if group.blocked else ""
    return (
        f"Recompute: {group.name}, {group.layers:,} layers {_WHAT[group.policy]}, "
        f"{group.ops:,} ops again; the backward pass keeps {kept}, before sharding{blocked}."
    )


def difference(tried: list[RewritingTried]) -> str:
    """What the plan saves and costs beside the program as it is; '' where that was not planned."""
    chosen = next((row for row in tried if row.chosen), None)
    if chosen is None or chosen is tried[0]:
        return ""
    first = tried[0]
    if None in (first.peak_bytes, chosen.peak_bytes, first.step_seconds, chosen.step_seconds):
        return ""
    saved = (first.peak_bytes or 0) - (chosen.peak_bytes or 0)
    cost = (chosen.step_seconds or 0.0) - (first.step_seconds or 0.0)
    less = f"{format_bytes(saved)} less" if saved >= 0 else f"{format_bytes(-saved)} more"
    more = f"{format_seconds(cost)} more" if cost >= 0 else f"{format_seconds(-cost)} less"
    return f"Beside the program as it came that takes {less} memory and {more} time."


def render_recomputation(found: RecomputedPlan, *, table: bool) -> Group:
    """The sentences, and on request the table where several rewritings were planned."""
    lines = [sentence(group) for group in found.groups]
    beside = difference(found.tried)
    said = Text("\n".join([*lines, *([beside] if beside else [])]))
    return Group(said, "", render_tried(found.tried)) if found.tried and table else Group(said)


def render_tried(tried: list[RewritingTried]) -> Table:
    """The rewritings that were planned as a table."""
    table = plain_table(
        "Rewritings that were tried", ">microbatches", "recompute", ">step", ">peak", "fits", ""
    )
    for row in tried:
        figures = ("", "", "")
        if row.step_seconds is not None and row.peak_bytes is not None:
            fits = "yes" if row.fits else "no"
            figures = (format_seconds(row.step_seconds), format_bytes(row.peak_bytes), fits)
        said = row.reason or ("this plan" if row.chosen else "")
        table.add_row(str(row.microbatches), row.recompute or "none", *figures, said)
    return table
