"""What differs between two plans as tables that a person can read."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.diff import FigureChange, PlanDiff
from toast.plans.reasons_report import signed_bytes, signed_seconds
from toast.plans.report import MIN_WIDTH, partition_spec
from toast.plans.tables import Name, plain_table
from toast.plans.words import path


def render_diff(found: PlanDiff) -> Group:
    """Settings, predictions, traffic, layouts and decisions, as far as they differ."""
    if found.equal:
        return Group(Text("The plans are the same.", style="bold"), *_module(found))
    parts: list[RenderableType] = [*_module(found)]
    for part in (_settings(found), _figures(found), _traffic(found), _layouts(found)):
        if part is not None:
            parts += [part, ""]
    return Group(*parts, _decisions(found))


def diff_text(found: PlanDiff, width: int = MIN_WIDTH) -> str:
    """The same as plain text."""
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_diff(found))
    return capture.get().rstrip("\n")


def _module(found: PlanDiff) -> list[RenderableType]:
    if found.same_module:
        return []
    return [Text("The modules are not the same to the letter; their arguments and results are.")]


def _settings(found: PlanDiff) -> Table | None:
    if not found.settings:
        return None
    table = plain_table("Planned for", "", "A", "B")
    for row in found.settings:
        table.add_row(row.what, Text(row.a), Text(row.b))
    return table


def _figures(found: PlanDiff) -> Table | None:
    if not found.figures:
        return None
    table = plain_table("Predicted cost of one step", "", ">A", ">B", ">B - A", ">")
    for row in found.figures:
        share = f"{(row.b - row.a) / row.a:+.1%}" if row.a else ""
        table.add_row(row.what, *_figure(row), share)
    return table


def _figure(row: FigureChange) -> tuple[str, str, str]:
    if row.unit == "seconds":
        return format_seconds(row.a), format_seconds(row.b), signed_seconds(row.b - row.a)
    return format_bytes(round(row.a)), format_bytes(round(row.b)), signed_bytes(row.b - row.a)


def _traffic(found: PlanDiff) -> Table | None:
    if not found.traffic:
        return None
    table = plain_table(
        "Communication, per device and step",
        "collective", ">count A", ">B", ">bytes A", ">B", ">time A", ">B", ">B - A",
    )  # fmt: skip
    for row in found.traffic:
        table.add_row(
            row.kind.replace("_", "-"),
            f"{row.count_a:,}",
            f"{row.count_b:,}",
            format_bytes(row.bytes_a),
            format_bytes(row.bytes_b),
            format_seconds(row.seconds_a),
            format_seconds(row.seconds_b),
            signed_seconds(row.seconds_b - row.seconds_a),
        )
    return table


def _layouts(found: PlanDiff) -> RenderableType:
    if not found.layouts:
        return Text(f"Layout: the same for all {found.unchanged_layouts:,} arguments and results.")
    title = f"Layout ({found.unchanged_layouts:,} arguments and results are laid out alike)"
    table = plain_table(title, "", "group", ">count", "shape", "A", "B")
    for row in found.layouts:
        table.add_row(
            row.kind,
            Name(path(row.name)),
            f"{row.count:,}",
            " x ".join(map(str, row.shape)) or "scalar",
            Name(partition_spec(row.a)),
            Name(partition_spec(row.b)),
        )
    return table


def _decisions(found: PlanDiff) -> Text:
    if found.reordered:
        return Text("Decisions: the same, in another order.")
    if not found.only_a and not found.only_b:
        return Text("Decisions: the same.")
    lines = [f"  A only  {one}" for one in found.only_a] + [f"  B only  {x}" for x in found.only_b]
    return Text("\n".join(["Decisions", *lines]))
