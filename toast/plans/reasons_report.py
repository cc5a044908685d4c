"""The reasons behind a name of a plan as tables that a person can read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.alternatives import Alternative, PlanColour
from toast.plans.reasons import ReasonedTensor, Reasons
from toast.plans.report import MIN_WIDTH, partition_spec
from toast.plans.tables import Name, plain_table
from toast.plans.words import path

NAMED = 3
"""Groups of arguments that a row of the alternatives names."""


def render_reasons(reasons: Reasons) -> Group:
    """What matches; the decisions behind it; what each colour would cost otherwise; traffic."""
    parts: list[RenderableType] = []
    for tensor in reasons.tensors:
        parts += [*_tensor(tensor), ""]
    if reasons.values:
        parts += [_values(reasons), ""]
    parts += [_decisions(reasons), ""]
    for colour in reasons.colours:
        parts += [_alternatives(reasons, colour), ""]
    return Group(*parts, _collectives(reasons))


def text_of(reasons: Reasons, width: int = MIN_WIDTH) -> str:
    """The same as plain text."""
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_reasons(reasons))
    return capture.get().rstrip("\n")


def signed_seconds(seconds: float) -> str:
    """A difference of times: `+1.2 ms`."""
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"


def signed_bytes(size: float) -> str:
    """A difference of sizes: `-1.50 GiB`."""
    return f"{'-' if size < 0 else '+'}{format_bytes(abs(round(size)))}"


def _tensor(tensor: ReasonedTensor) -> Iterator[RenderableType]:
    many = f", {tensor.count} {tensor.kind}s" if tensor.count > 1 else f", {tensor.kind}"
    spec = partition_spec([row.axes for row in tensor.dimensions])
    yield Text(
        f"{path(tensor.name)}{many}: {tensor.dtype} {_shape(tensor.shape)}, {spec}, "
        f"{_shape(tensor.shape_per_device)} per device",
        style="bold",
    )
    if not tensor.dimensions:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("dimension", "size", "over", "colour", "because of"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    for number, row in enumerate(tensor.dimensions):
        because = [f"decision {one}" for one in row.decisions]
        because += [f"{axis}: a pin or a refinement" for axis in row.demanded]
        table.add_row(
            str(number),
            f"{row.size:,}",
            Text(", ".join(row.axes) or "-"),
            Name(row.colour or "(none: an op needs it whole)"),
            ", ".join(because) or "no decision shards its colour" if row.colour else "",
        )
    yield table


def _values(reasons: Reasons) -> Table:
    table = plain_table("Alive at the peak", "value", "line", "shape", ">count", "why", ">bytes")
    for row in reasons.values:
        why = row.why.replace("_", " ")
        cells = (Name(path(row.name)), Name(row.location), _shape(row.shape), f"{row.count:,}")
        table.add_row(*cells, why, format_bytes(row.bytes))
    return table


def _decisions(reasons: Reasons) -> RenderableType:
    if not reasons.decisions:
        return Text("Decisions: none behind it.")
    title = "Decisions behind it, and what each bought when it was added to those before"
    table = plain_table(title, ">", "colour", "axis", "resolution", ">step", ">", ">peak", ">")
    for row in reasons.decisions:
        table.add_row(
            str(row.number),
            Name(row.colour),
            Text(row.axis),
            Text(row.resolution or "-"),
            format_seconds(row.step_seconds_after),
            signed_seconds(row.step_seconds_after - row.step_seconds_before),
            format_bytes(row.peak_bytes_after),
            signed_bytes(row.peak_bytes_after - row.peak_bytes_before),
        )
    words = [
        Text(f"Decision {row.number}, conflict {bit}: {said}.")
        for row in reasons.decisions
        for bit, said in enumerate(row.resolved)
    ]
    return Group(table, *words)


def _alternatives(reasons: Reasons, colour: PlanColour) -> RenderableType:
    now = f"now over {', '.join(colour.axes)}" if colour.axes else "now whole"
    lead = f"{colour.name}, {now}"
    if not colour.alternatives:
        why = "there was no room to price others" if colour.unpriced else "nothing else changes it"
        return Text(f"{lead}: {why}.")
    table = plain_table(
        f"Instead of {lead}, all else as it is",
        "over", "resolution", ">step", ">", ">communication", ">peak", ">", "fits",
        "would also move",
    )  # fmt: skip
    for row in colour.alternatives:
        table.add_row(
            Text((", ".join(row.axes) or "(whole)") + (", first" if row.first else "")),
            Text(row.resolution or "-"),
            format_seconds(row.step_seconds),
            signed_seconds(row.step_seconds - reasons.step_seconds),
            signed_seconds(row.communication_seconds - reasons.communication_seconds),
            format_bytes(row.peak_bytes),
            signed_bytes(row.peak_bytes - reasons.peak_bytes),
            "yes" if row.fits else "no",
            Name(moved(row)),
        )
    return table


def moved(row: Alternative) -> str:
    """The arguments that an alternative lays out otherwise, the largest first."""
    said = [f"{path(one.name)} {partition_spec(one.spec)}" for one in row.moved[:NAMED]]
    left = sum(one.count for one in row.moved[NAMED:]) + row.others_moved
    return "; ".join([*said, *([f"{left} more"] if left else [])]) or "values alone"


def _collectives(reasons: Reasons) -> RenderableType:
    if not reasons.collectives:
        return Text("Communication: none among the collectives that the plan lists.")
    table = plain_table(
        "Communication", "collective", "over", "of", "for", "line", "decisions", ">count", ">bytes",
        ">time",
    )  # fmt: skip
    for row in reasons.collectives:
        table.add_row(
            row.kind.replace("_", "-"),
            Text(", ".join(row.axes)),
            Name(path(row.value)),
            Name("" if row.needed_by == row.value else path(row.needed_by)),
            Name(row.location),
            ", ".join(map(str, row.decisions)) or "a pin",
            f"{row.count:,}",
            format_bytes(row.bytes),
            format_seconds(row.seconds),
        )
    return table


def _shape(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"
