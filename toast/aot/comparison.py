"""A plan's predictions beside what the compiler made of its module, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.aot.target import Target
from toast.aot.verdict import CompiledCollective, Verdict
from toast.costmodel.hardware.devices import find
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.plan import Collective, Plan

Key = tuple[str, tuple[str, ...]]


def render_comparison(plan: Plan, verdict: Verdict) -> Group:
    """Memory, then collectives, then time, predicted against compiled."""
    parts: list[Table | Text | str] = [_memory(plan, verdict)]
    if verdict.refusal is not None:
        first = verdict.refusal.message.splitlines()[0]
        parts += ["", Text(f"The program does not fit: {first}", style="bold red")]
    if verdict.memory is not None:
        parts += ["", _collectives(plan, verdict), "", _time(plan, verdict)]
    return Group(*parts)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _memory(plan: Plan, verdict: Verdict) -> Table:
    table = _table(
        f"Memory per device, compiled for {verdict.target}",
        ("", "predicted", "compiled", "difference"),
    )
    predicted, needed = plan.predicted.peak_bytes, verdict.needed_bytes
    table.add_row(
        "needed",
        format_bytes(predicted),
        "unknown" if needed is None else format_bytes(needed),
        "" if not needed else f"{predicted / needed - 1:+.1%}",
    )
    there = find(Target.parse(verdict.target).chip.device).usable_bytes
    table.add_row("available", format_bytes(plan.memory_bytes), format_bytes(there), "")
    fits = "yes" if plan.predicted.fits else "no"
    table.add_row("fits", fits, "no" if verdict.refusal else "yes", "")
    if (memory := verdict.memory) is not None:
        parts = (
            ("  arguments", memory.argument),
            ("  results", memory.output),
            ("  of these in place", memory.alias),
            ("  temporaries", memory.temp),
        )
        for name, size in parts:
            table.add_row(name, "", format_bytes(size), "")
    return table


def _collectives(plan: Plan, verdict: Verdict) -> Table:
    table = _table(
        "Collectives per step; bytes on the wire of one device",
        ("", "count predicted", "compiled", "bytes predicted", "compiled"),
    )
    rows = _pair(plan.collectives, verdict.collectives)
    for (kind, axes), (predicted, compiled) in rows.items():
        table.add_row(
            f"{kind} over {', '.join(axes) or 'no axis'}",
            "" if predicted is None else str(predicted.count),
            "" if not compiled else f"{sum(row.count for row in compiled):g}",
            "" if predicted is None else format_bytes(predicted.bytes),
            "" if not compiled else format_bytes(sum(row.wire_bytes for row in compiled)),
        )
    table.add_row(
        "together",
        str(sum(row.count for row in plan.collectives)),
        f"{sum(row.count for row in verdict.collectives):g}",
        format_bytes(sum(row.bytes for row in plan.collectives)),
        format_bytes(sum(row.wire_bytes for row in verdict.collectives)),
    )
    return table


def _pair(
    predicted: Sequence[Collective], compiled: Sequence[CompiledCollective]
) -> dict[Key, tuple[Collective | None, list[CompiledCollective]]]:
    """Rows of equal kind and axes side by side, most bytes first."""
    rows: dict[Key, tuple[Collective | None, list[CompiledCollective]]] = {}
    for one in predicted:
        rows[(one.kind, tuple(sorted(one.axes)))] = (one, [])
    for other in compiled:
        axes = (f"groups of {other.group_size}",) if other.axes is None else other.axes
        key = (other.kind, tuple(sorted(axes)))
        rows.setdefault(key, (None, []))[1].append(other)
    return dict(sorted(rows.items(), key=lambda item: -_weight(item[1])))


def _weight(row: tuple[Collective | None, list[CompiledCollective]]) -> float:
    predicted, compiled = row
    sent = sum(one.wire_bytes for one in compiled)
    return max(0.0 if predicted is None else float(predicted.bytes), sent)


def _time(plan: Plan, verdict: Verdict) -> Text:
    predicted = format_seconds(plan.predicted.compute_seconds)
    if verdict.memory_only:
        return Text(
            f"Computation: {predicted} predicted. The compiler was ended after "
            f"{format_seconds(verdict.compile_seconds)}, when it had laid memory out: it has "
            "generated no code, and estimated no time."
        )
    if verdict.compute_seconds is None:
        return Text(f"Computation: {predicted} predicted; this compiler gives no estimate.")
    compiled = format_seconds(verdict.compute_seconds)
    text = f"Computation: {predicted} predicted, {compiled} by the compiler's own estimate."
    if verdict.unestimated:
        text += f" The compiler gives no time for {_left_out(verdict)}, so its estimate lacks them."
    if verdict.step_seconds is None or verdict.makespan_seconds is None:
        return Text(text)
    meant = "computation and communication overlapping" if plan.search.overlap else "their sum"
    return Text(
        f"{text}\n"
        f"Step: {format_seconds(plan.predicted.step_seconds)} predicted ({meant}); compiled "
        f"{format_seconds(verdict.step_seconds)} one after the other, and "
        f"{format_seconds(verdict.makespan_seconds)} with its asynchronous collectives beside "
        "computation."
    )


def _left_out(verdict: Verdict) -> str:
    """Such as `2 gathers, 1 sort`."""
    found = sorted(verdict.unestimated.items())
    return ", ".join(f"{count:g} {name}{'' if count == 1 else 's'}" for name, count in found)
