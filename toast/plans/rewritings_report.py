"""How a step was rewritten, in words, and the rewritings that were compared as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.plan import Plan
from toast.plans.recomputation import RecomputedLayers
from toast.plans.tables import plain_table
from toast.plans.time import RewritingTried, TimeAxes

_WHAT = {"all": "made again", "products": "made again but for products"}


def rewriting_sentences(plan: Plan) -> list[str]:
    """What runs in parts, which layers are made again, and what that saves and costs."""
    found = [] if plan.time is None else [_time(plan.time)]
    if plan.recompute is not None:
        found += map(_layers, plan.recompute.groups)
    return [*found, *_difference(rewritings_tried(plan))]


def rewritings_tried(plan: Plan) -> list[RewritingTried]:
    """All that were planned; the first is the step as it came."""
    rewritten = plan.time or plan.recompute
    return [] if rewritten is None else rewritten.tried


def render_rewritings(plan: Plan) -> Group | None:
    """The sentences, and the table where several rewritings were planned; None for none."""
    said, tried = rewriting_sentences(plan), rewritings_tried(plan)
    if not said:
        return None
    text = Text("\n".join(said))
    return Group(text, "", _table(tried)) if tried else Group(text)


def rewriting_row(row: RewritingTried) -> tuple[str, ...]:
    """What a table says of one that was planned."""
    figures = ("", "", "")
    if row.step_seconds is not None and row.peak_bytes is not None:
        fits = "yes" if row.fits else "no"
        figures = (format_seconds(row.step_seconds), format_bytes(row.peak_bytes), fits)
    said = row.reason or ("this plan" if row.chosen else "")
    return str(row.microbatches), row.recompute or "none", *figures, said


def _table(tried: list[RewritingTried]) -> Table:
    columns = (">microbatches", "recompute", ">step", ">peak", "fits", "")
    table = plain_table("Rewritings that were tried", *columns)
    for row in tried:
        table.add_row(*rewriting_row(row))
    return table


def _time(time: TimeAxes) -> str:
    count = time.microbatches
    dtype = "f32" if time.accumulate == "f32" else "the program's type"
    batch = f"dimension {time.dimension} of {time.argument}"
    sums = sum(row.count for row in time.sums)
    added = f"{_values(sums, 'sum')} of {format_bytes(time.sum_bytes)}, kept in {dtype}"
    stacks = sum(row.count for row in time.stacks)
    written = f"; {_values(stacks, 'result')} along the batch" if stacks else ""
    return (
        f"Time: the batch ({batch}, {time.size:,}) runs in {count} microbatches of "
        f"{time.size // count:,}; the loop carries {added}, before sharding{written}."
    )


def _values(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _layers(group: RecomputedLayers) -> str:
    kept = f"{format_bytes(group.kept_bytes)} of {format_bytes(group.before_bytes)}"
    blocked = f"; these ops run once: {', '.join(group.blocked)}" if group.blocked else ""
    return (
        f"Recompute: {group.name}, {group.layers:,} layers {_WHAT[group.policy]}, "
        f"{group.ops:,} ops again; the backward pass keeps {kept}, before sharding{blocked}."
    )


def _difference(tried: list[RewritingTried]) -> Iterator[str]:
    """What the plan saves and costs beside the step as it came, where that was planned."""
    chosen = next((row for row in tried if row.chosen), None)
    if chosen is None or chosen is tried[0]:
        return
    first = tried[0]
    if None in (first.peak_bytes, chosen.peak_bytes, first.step_seconds, chosen.step_seconds):
        return
    saved = (first.peak_bytes or 0) - (chosen.peak_bytes or 0)
    cost = (chosen.step_seconds or 0.0) - (first.step_seconds or 0.0)
    less = f"{format_bytes(saved)} less" if saved >= 0 else f"{format_bytes(-saved)} more"
    more = f"{format_seconds(cost)} more" if cost >= 0 else f"{format_seconds(-cost)} less"
    yield f"Beside the step as it came that takes {less} memory and {more} time."
