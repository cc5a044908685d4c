"""The page of a plan: the rows of its tables and its plots, for the template."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from markupsafe import Markup

from toast.analysis.types import itemsize
from toast.page.drawing import draw
from toast.page.rendering import render_template
from toast.plans import words
from toast.plans.advice_report import advice_rows
from toast.plans.argument_groups import merge_argument_groups
from toast.plans.conflicts import ConflictSet
from toast.plans.page.figures import front_plot, memory_plot, time_plot
from toast.plans.page.head import make_head
from toast.plans.plan import Group, Plan
from toast.plans.reasons_report import moved, signed_bytes, signed_seconds
from toast.plans.report import (
    after_decision,
    decision_subject,
    local_shape,
    partition_spec,
    proof_sentence,
    shape_text,
)
from toast.plans.rewritings_report import rewriting_row, rewritings_tried

MAX_ROWS = 100
"""Rows of a table that are seen at once."""
MAX_GROUPS = 5000
"""Argument groups that are on the page at all."""
MAX_COLOURS = 40
"""Colours whose alternatives are on the page."""
MAX_NAMES = 20
"""Arguments of a group that unfold; the names are those of the module and may be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRow:
    """A row of the layout table; `bytes` are those of one device, `whole` of the module."""

    name: str
    members: list[str]
    count: int
    shape: str
    dtype: str
    spec: str
    local: str
    bytes: float
    whole: float


def report_html(plan: Plan, title: str = "Sharding plan") -> str:
    """One HTML page that needs no other file and no network.

    What it shows is in the plan, so nothing is computed again.
    """
    explanation = plan.explanation
    return render_template(
        __package__.rpartition(".")[0],
        "plan.html",
        plan=plan,
        title=title,
        head=make_head(plan),
        words=words,
        explanation=explanation,
        memory_plot=explanation and memory_plot(plan, explanation),
        time_plot=explanation and explanation.ops and time_plot(plan, explanation),
        front_plot=front_plot(plan) if len(plan.choices) > 1 else None,
        layouts=_layouts(plan),
        groups_left_out=max(len(plan.groups) - MAX_GROUPS, 0),
        most=MAX_ROWS,
        decision_subject=decision_subject,
        partition_spec=partition_spec,
        rewritings=[rewriting_row(row) for row in rewritings_tried(plan)],
        proof=proof_sentence(plan),
        advice_rows=advice_rows,
        after_decision=after_decision,
        signed_seconds=signed_seconds,
        signed_bytes=signed_bytes,
        moved=moved,
        most_colours=MAX_COLOURS,
        devices=math.prod(axis.size for axis in plan.mesh.axes),
        draw=_draw,
        sides=_sides,
    )


def _layouts(plan: Plan) -> list[LayoutRow]:
    sizes = {axis.name: axis.size for axis in plan.mesh.axes}
    groups = merge_argument_groups(plan.groups[:MAX_GROUPS])
    return [_layout(plan, group, sizes) for group in groups]


def _layout(plan: Plan, group: Group, sizes: dict[str, int]) -> LayoutRow:
    local = local_shape(group.shape, group.spec, sizes)
    each = itemsize(group.dtype) * len(group.arguments)
    return LayoutRow(
        name=words.path(group.name),
        members=list(islice(_names(plan, group), MAX_NAMES)),
        count=len(group.arguments),
        shape=shape_text(group.shape),
        dtype=group.dtype,
        spec=partition_spec(group.spec),
        local=shape_text(local),
        bytes=each * math.prod(local),
        whole=each * math.prod(group.shape),
    )


def _names(plan: Plan, group: Group) -> Iterator[str]:
    """The arguments of a group, where there are several."""
    if len(group.arguments) > 1:
        yield from (plan.arguments[index].name for index in group.arguments)


def _draw(conflict: ConflictSet) -> Markup:
    """The graph of a set, which escapes its names."""
    return Markup(draw(conflict.graph.model_dump())) if conflict.graph else Markup()


def _sides(conflict: ConflictSet) -> list[str]:
    """Both resolutions, without where they arise."""
    return [text.partition(" of the ")[0] for text in conflict.resolutions]
