"""An explanation as tables and a small plot for a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.explain.timeline import Timeline
from toast.plans.advice_report import render_advice
from toast.plans.explanation import (
    BlockedTensor,
    Explanation,
    PeakMoment,
    Shortfall,
    SplitRow,
)
from toast.plans.plan import Plan
from toast.plans.slices_report import axes_text
from toast.plans.tables import Name, plain_table
from toast.plans.words import PASS, fusion_name, moment, path, reason, sent, sent_for, shape

ROWS = 10


def render_explanation(plan: Plan, explanation: Explanation, rows: int = ROWS) -> Group:
    """Time by fusion, collective and layer group; memory at the peak and over the schedule."""
    parts: list[RenderableType] = [headline(plan, explanation.peak)]
    tables = (
        fusions(plan, explanation, rows),
        collectives(plan, explanation, rows),
        layers(plan, explanation, rows),
        alive(explanation, rows),
    )
    for part in tables:
        parts += ["", part]
    parts += ["", Timeline(explanation.timeline, explanation.peak, plan.memory_bytes)]
    if plan.shortfall is not None:
        parts += ["", render_shortfall(plan, plan.shortfall)]
    return Group(*parts)


def headline(plan: Plan, peak: PeakMoment) -> Text:
    """The two sums that the tables take apart."""
    cost = plan.predicted
    hidden = f", {format_seconds(cost.overlapped_seconds)} of it hidden"
    return Text(
        f"A step takes {format_seconds(cost.step_seconds)}: computation "
        f"{format_seconds(cost.compute_seconds)}, communication "
        f"{format_seconds(cost.communication_seconds)}"
        f"{hidden if cost.overlapped_seconds else ''}.\n"
        f"Memory peaks at {format_bytes(peak.bytes)} of {format_bytes(plan.memory_bytes)}, at "
        f"{moment(peak)}.",
        style="bold",
    )


def fusions(plan: Plan, explanation: Explanation, rows: int) -> Table:
    """Computation by kind of op and place."""
    whole = plan.predicted.compute_seconds
    found = plain_table(
        "Computation", "fusion", "line", "pass", "layer group", "bound by", ">runs", ">time", ">"
    )
    shown = explanation.fusions[:rows]
    for row in shown:
        found.add_row(
            Name(fusion_name(row)),
            Name(row.location),
            PASS[row.direction],
            Name(path(row.group)),
            row.bound,
            f"{row.runs:,}",
            format_seconds(row.seconds),
            share(row.seconds, whole),
        )
    left = explanation.fusions[rows:]
    seconds = sum(row.seconds for row in left) + explanation.other_fusions.seconds
    _others(found, len(left) + explanation.other_fusions.rows, format_seconds(seconds),
            share(seconds, whole))  # fmt: skip
    return found


def collectives(plan: Plan, explanation: Explanation, rows: int) -> Table | Text:
    """Communication by collective, and what it is for."""
    if not explanation.collectives:
        return Text("Communication: none.")
    whole = plan.predicted.communication_seconds
    found = plain_table(
        "Communication", "collective", "over", "of", "line", "why", ">count", ">bytes", ">time", ">"
    )
    found.columns[0].min_width = len("reduce-scatter")
    for row in explanation.collectives[:rows]:
        found.add_row(
            row.kind.replace("_", "-"),
            Text(axes_text(plan, row.axes)),
            Name(sent(row)),
            Name(row.location),
            Name(sent_for(row)),
            f"{row.count:,}",
            format_bytes(row.bytes),
            format_seconds(row.seconds),
            share(row.seconds, whole),
        )
    left, rest = explanation.collectives[rows:], explanation.other_collectives
    seconds = sum(row.seconds for row in left) + rest.seconds
    size = sum(row.bytes for row in left) + rest.bytes
    _others(found, len(left) + rest.rows, format_bytes(size), format_seconds(seconds),
            share(seconds, whole))  # fmt: skip
    return found


def layers(plan: Plan, explanation: Explanation, rows: int) -> Table:
    """Time and memory by layer group."""
    cost = plan.predicted
    whole = cost.compute_seconds + cost.communication_seconds
    found = plain_table(
        "By layer group", "group", ">compute", ">communication", ">of the time", ">at the peak", ">"
    )
    shown, rest = explanation.layers[:rows], explanation.layers[rows:]
    for row in shown:
        found.add_row(
            Name(path(row.name)),
            format_seconds(row.compute_seconds),
            format_seconds(row.communication_seconds),
            share(row.compute_seconds + row.communication_seconds, whole),
            format_bytes(row.peak_bytes),
            share(row.peak_bytes, explanation.peak.bytes),
        )
    others = [*rest, explanation.other_layers]
    compute = sum(row.compute_seconds for row in others)
    communication = sum(row.communication_seconds for row in others)
    size = sum(row.peak_bytes for row in others)
    if compute or communication or size:
        found.add_row(
            "others",
            format_seconds(compute),
            format_seconds(communication),
            share(compute + communication, whole),
            format_bytes(size),
            share(size, explanation.peak.bytes),
            style="dim",
        )
    return found


def alive(explanation: Explanation, rows: int) -> Table:
    """What takes the memory at the peak."""
    found = plain_table(
        "Alive at the peak, per device", "value", "line", "shape", "dtype", ">count", "why",
        ">bytes", ">",
    )  # fmt: skip
    whole = explanation.peak.bytes
    for row in explanation.alive[:rows]:
        found.add_row(
            Name(path(row.name)),
            Name(row.location),
            shape(row),
            row.dtype,
            f"{row.count:,}",
            reason(row),
            format_bytes(row.bytes),
            share(row.bytes, whole),
        )
    left, rest = explanation.alive[rows:], explanation.other_alive
    size = sum(row.bytes for row in left) + rest.bytes
    _others(found, len(left) + rest.rows, format_bytes(size), share(size, whole))
    return found


def render_shortfall(plan: Plan, shortfall: Shortfall) -> Group:
    """By how much nothing fits, and for the largest tensors which splits are not taken."""
    parts: list[RenderableType] = [
        Text(
            f"{format_bytes(shortfall.over_bytes)} too much, at {moment(shortfall.peak)}. "
            "What stands in the way:",
            style="bold red",
        )
    ]
    devices = math.prod(axis.size for axis in plan.mesh.axes)
    for blocked in shortfall.tensors:
        row = blocked.tensor
        many = f"{row.count:,} x " if row.count > 1 else ""
        at = f" ({row.location})" if row.location else ""
        parts.append(
            Text(
                f"\n{path(row.name)}{at}: {many}{row.dtype}[{shape(row)}], "
                f"{format_bytes(row.bytes)}, {reason(row)}"
            )
        )
        parts.append(_splits(blocked, devices))
    if shortfall.advice is not None:
        parts += ["", render_advice(shortfall.advice)]
    return Group(*parts)


def _splits(blocked: BlockedTensor, devices: int) -> RenderableType:
    """The splits of one tensor; dimensions with the same answer share a row."""
    if blocked.shards >= devices:
        return Text(
            f"  split {blocked.shards} ways over every axis already: more devices, a smaller step "
            "or recomputation would make it smaller"
        )
    found = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows: dict[tuple[str, str, str], list[SplitRow]] = {}
    for split in blocked.splits:
        rows.setdefault((split.axis, split.obstacle, split.detail), []).append(split)
    for (axis, obstacle, detail), splits in rows.items():
        noun = "dimension" if len(splits) == 1 else "dimensions"
        numbers = ", ".join(f"{split.dimension} (of {split.size:,})" for split in splits)
        style = _STYLE.get(obstacle, "")
        found.add_row(
            f"  {noun} {numbers}",
            Text(f"over {axis}"),
            Text(obstacle.replace("_", " "), style=style),
            Text(detail),
        )
    return found


_STYLE = {"pays": "green", "costs_time": "yellow"}


def share(part: float, whole: float) -> str:
    """A part in percent."""
    return f"{part / whole:.1%}" if whole > 0 else ""


def _others(found: Table, count: int, *cells: str) -> None:
    """A last row for what is left out, its figures under those of the others."""
    if count:
        blank = [""] * (len(found.columns) - 1 - len(cells))
        found.add_row(f"{count:,} others", *blank, *cells, style="dim")
