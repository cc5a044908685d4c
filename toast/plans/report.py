"""A plan as tables that a person can read."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.advice_report import render_advice
from toast.plans.argument_groups import merge_argument_groups
from toast.plans.confirmation_report import render_confirmation
from toast.plans.confirmation_report import sentence as confirmation_sentence
from toast.plans.costs import BandFigure, BandSource, PredictedCost
from toast.plans.plan import Decision, MeshAxis, Plan, Spec
from toast.plans.rewritings_report import render_rewritings
from toast.plans.slices_report import axes_text, slices_sentence
from toast.plans.tables import Name, plain_table
from toast.plans.words import path

MIN_WIDTH = 120
"""Tables wrap badly below this; a pipe or a log has no width of its own."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that is wide enough for the tables where nobody says how wide it is."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=MIN_WIDTH)
    return console


def render(plan: Plan) -> Group:
    """The whole report, in the order in which questions are asked."""
    parts: list[RenderableType] = [headline(plan)]
    if over := slices_sentence(plan):
        parts.append(Text(over))
    if rewritten := render_rewritings(plan):
        parts += ["", rewritten]
    parts += ["", layouts(plan), "", costs(plan)]
    if behind := bands_sentence(plan):
        parts.append(Text(behind))
    optional = (
        advice(plan),
        confirmation(plan),
        collectives(plan),
        meshes(plan),
        choices(plan),
        decisions(plan),
        proof(plan),
        stages(plan),
        unpriced(plan),
        warnings(plan),
    )
    for part in optional:
        if part is not None:
            parts += ["", part]
    return Group(*parts)


def as_text(plan: Plan) -> str:
    """The whole report as lines of plain text, `MIN_WIDTH` wide at most."""
    console = Console(file=io.StringIO(), width=MIN_WIDTH, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render(plan))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def headline(plan: Plan) -> Text:
    """What was planned, for what, and whether it fits; what the compiler said has its own line."""
    mesh = " x ".join(map(_axis, plan.mesh.axes))
    search = plan.search
    first = (
        f"{plan.module.ops:,} ops, {plan.module.arguments:,} arguments on {plan.device}, "
        f"mesh {mesh}; {search.planner}, {search.evaluations:,} evaluations in "
        f"{format_seconds(search.seconds)} ({search.termination})\n"
    )
    faster = plan.unsharded.step_seconds / max(plan.predicted.step_seconds, 1e-30)
    second = (
        f"Predicted: {plan.predicted.step_text} a step, {faster:.2f} times as "
        f"fast as one device; {fit_sentence(plan)}"
    )
    third = "" if plan.confirmed is None else f"\n{confirmation_sentence(plan.confirmed)}"
    return Text(first + second + third, style=_HEADLINES[plan.verdict])


_HEADLINES = {"fits": "bold", "tight": "bold yellow", "does not fit": "bold red"}


def _axis(axis: MeshAxis) -> str:
    over = f" over {', '.join(axis.places)}" if axis.places else ""
    return f"{axis.name}={axis.size}{over}"


def fit_sentence(plan: Plan) -> str:
    """Whether the plan fits the memory, or by how much it does not."""
    peak, there = plan.predicted.peak_bytes, plan.memory_bytes
    share = f"{plan.predicted.peak_text} of {format_bytes(there)} per device"
    if plan.predicted.said == "tight":
        return f"TIGHT, {share}: the band holds what there is."
    if plan.predicted.said == "fits":
        return f"fits, {share} ({peak / max(there, 1):.0%})."
    return f"DOES NOT FIT: {share}, {format_bytes(max(peak - there, 0))} too much."


def layouts(plan: Plan) -> Table:
    """The layout of each group of arguments, as a PartitionSpec."""
    table = plain_table("Layout of the arguments", "group", ">count", "shape", "dtype", "layout")
    table.add_column("shape per device")
    sizes = {axis.name: axis.size for axis in plan.mesh.axes}
    for group in merge_argument_groups(plan.groups):
        table.add_row(
            Name(path(group.name)),
            str(len(group.arguments)),
            shape_text(group.shape),
            group.dtype,
            Name(partition_spec(group.spec)),
            shape_text(local_shape(group.shape, group.spec, sizes)),
        )
    return table


def costs(plan: Plan) -> Table:
    """The plan beside the unsharded module and the reference layouts."""
    rows: list[tuple[str, PredictedCost]] = [
        ("this plan", plan.predicted),
        ("unsharded", plan.unsharded),
    ]
    rows += [(baseline.name.replace("_", " "), baseline) for baseline in plan.baselines]
    overlaps = any(cost.overlapped_seconds for _, cost in rows)
    meant = "both overlapping" if overlaps else "computation, then communication"
    table = plain_table(f"Predicted cost of one step: {meant}", "layout", *_COSTS)
    if overlaps:
        table.add_column("overlapped", justify="right")
    for name, cost in rows:
        hidden = [format_seconds(cost.overlapped_seconds)] if overlaps else []
        table.add_row(name, *_cost_cells(plan, cost), *hidden)
    return table


def bands_sentence(plan: Plan) -> str:
    """The programs behind the bands that the table shows; '' where it shows none."""
    found = [
        f"the {word} by {_programs(row, plan)}"
        for row in plan.band_sources
        for figure, word in _SHOWN.get(row.figure, {}).items()
        if plan.predicted.band(figure) is not None
    ]
    if not found:
        return ""
    return f"In brackets where nine in ten held-out programs lay: {', '.join(found)}."


_SHOWN: dict[str, dict[BandFigure, str]] = {
    "step": {"step_seconds": "step"},
    "room": {"peak_bytes": "peak"},
    "pressed": {"pressed_bytes": "peak of what is pressed"},
}
_KINDS = {
    "train": "steps of training",
    "prefill": "prompts",
    "decode": "decode steps",
    "infer": "inferences",
    "all": "programs of all kinds",
}


def _programs(row: BandSource, plan: Plan) -> str:
    """How many of what, and for which chips where it is not for those of the plan."""
    chips = "" if row.chips == plan.device else " for all chips"
    if row.chips not in {plan.device, "all"}:
        chips = f" for {row.chips}"
    return f"{row.programs} {_KINDS[row.kind]}{chips}"


def advice(plan: Plan) -> Group | None:
    """What would fit, where the plan does not and that was looked for."""
    if plan.shortfall is None or plan.shortfall.advice is None:
        return None
    return render_advice(plan.shortfall.advice)


def confirmation(plan: Plan) -> Group | None:
    """What the compiler said, where it was asked."""
    return None if plan.confirmed is None else render_confirmation(plan.confirmed)


def meshes(plan: Plan) -> Table | None:
    """The meshes that were tried, where the mesh was to be chosen."""
    if not plan.meshes:
        return None
    table = plain_table("Meshes, each with its best plan", "mesh", *_COSTS, "")
    for row in plan.meshes:
        cells = [""] * len(_COSTS) if row.predicted is None else _cost_cells(plan, row.predicted)
        note = "; ".join(filter(None, ("chosen" if row.chosen else "", row.reason)))
        table.add_row(Text(row.mesh), *cells, Text(note))
    return table


def choices(plan: Plan) -> Table | None:
    """The front of time against memory, where there is more on it than the plan."""
    if len(plan.choices) < 2:
        return None
    title = "Choices of time against memory (`toast choose DIR NUMBER` takes another)"
    table = plain_table(title, ">", *_COSTS, ">decisions", "")
    for number, row in enumerate(plan.choices, 1):
        note = "this plan" if row.chosen else ""
        table.add_row(str(number), *_cost_cells(plan, row), str(len(row.decisions)), note)
    return table


_FITS = {
    "fits": ("yes", "green"),
    "tight": ("tight", "yellow"),
    "does not fit": ("no", "red"),
}
_COSTS = (">step", ">compute", ">communication", ">peak", ">of memory", "fits")


def _cost_cells(plan: Plan, cost: PredictedCost) -> list[str | Text]:
    return [
        cost.step_text,
        format_seconds(cost.compute_seconds),
        format_seconds(cost.communication_seconds),
        cost.peak_text,
        f"{cost.peak_bytes / max(plan.memory_bytes, 1):.0%}",
        Text(*_FITS[cost.said]),
    ]


def collectives(plan: Plan) -> Table | Text:
    """Communication by collective and mesh axes."""
    if not plan.collectives:
        return Text("Communication: none.")
    table = plain_table(
        "Communication, per device and step", "collective", "axes", ">count", ">bytes", ">time"
    )
    for row in sorted(plan.collectives, key=lambda c: -c.seconds):
        table.add_row(
            row.kind.replace("_", "-"),
            Text(axes_text(plan, row.axes)),
            f"{row.count:,}",
            format_bytes(row.bytes),
            format_seconds(row.seconds),
        )
    return table


def decisions(plan: Plan) -> Table | Text:
    """The decisions in order, each with what a step takes once it is added to those before."""
    if not plan.decisions:
        return Text("Decisions: none; the unsharded layout is the best found.")
    where = "colour or place" if any(row.places for row in plan.decisions) else "colour"
    table = plain_table("Decisions", ">", where, "axis", "resolution", ">step after", ">peak after")
    for number, row in enumerate(plan.decisions, 1):
        texts = (Name(decision_subject(row)), Text(row.axis), Text(row.resolution or "-"))
        table.add_row(str(number), *texts, *after_decision(plan, row))
    return table


def after_decision(plan: Plan, row: Decision) -> tuple[str, str]:
    """Step time and peak after a decision; older plans know their cost in unsharded steps alone."""
    if row.step_seconds_after is None or row.peak_bytes_after is None:
        return f"{format_seconds(row.cost_after * plan.unsharded.step_seconds)} at most", ""
    return format_seconds(row.step_seconds_after), format_bytes(row.peak_bytes_after)


def decision_subject(row: Decision) -> str:
    """The colour; of a refinement below the colour level its first place."""
    if not row.places:
        return row.colour
    more = f" and {len(row.places) - 1} more" if len(row.places) > 1 else ""
    return row.places[0] + more


def proof(plan: Plan) -> Text | None:
    """How far from the best state the plan may be, where that is known."""
    sentence = proof_sentence(plan)
    return Text(f"Proof: {sentence}") if sentence else None


def proof_sentence(plan: Plan) -> str:
    """The bound and the plan in seconds, of which memory that is lacking costs some too."""
    if plan.lower_bound is None or plan.gap is None:
        return ""
    one = plan.unsharded.step_seconds
    least, own = format_seconds(plan.lower_bound * one), format_seconds(plan.search.cost * one)
    lacking = "" if plan.predicted.fits else ", with what it pays for the memory that is lacking"
    return (
        f"no state of this search costs less than {least} a step ({plan.relaxation}); this plan "
        f"costs {own}{lacking}: a gap of {plan.gap:.1%}."
    )


def stages(plan: Plan) -> Table | None:
    """Where the time went."""
    if not plan.stages:
        return None
    table = plain_table("Time by stage", "stage", ">time")
    for name, seconds in plan.stages.items():
        table.add_row(Text(name), format_seconds(seconds))
    table.add_row("total", format_seconds(sum(plan.stages.values())), style="bold")
    return table


def unpriced(plan: Plan) -> Table | None:
    """Ops that the analysis or the price has no rule for; they never make a plan look cheaper."""
    if not plan.unpriced:
        return None
    table = plain_table("Ops without a rule or a price", "op", ">count", "what is missing")
    for row in plan.unpriced:
        table.add_row(Text(row.op), f"{row.count:,}", row.reason.replace("_", " "))
    return table


def warnings(plan: Plan) -> Text | None:
    """What the reader should know before they trust the plan."""
    if not plan.warnings:
        return None
    return Text("\n".join(f"Warning: {warning}" for warning in plan.warnings), style="yellow")


def partition_spec(spec: Spec) -> str:
    """A spec as JAX prints it, less its trailing Nones: `P('data', None, ('x', 'y'))`."""
    entries = [_entry(axes) for axes in spec]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def _entry(axes: list[str]) -> str:
    names = ", ".join(repr(axis) for axis in axes)
    return "None" if not axes else names if len(axes) == 1 else f"({names})"


def local_shape(shape: list[int], spec: Spec, sizes: dict[str, int]) -> list[int]:
    """The shape on one device, by the sizes of the mesh's axes."""
    local = list(shape)
    for dimension, axes in enumerate(spec):
        for axis in axes:
            local[dimension] = -(-local[dimension] // sizes[axis])
    return local


def shape_text(shape: Iterable[int]) -> str:
    """`8 x 32`."""
    return " x ".join(str(size) for size in shape) or "scalar"
