"""What the compiler confirmed, as a table."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.confirmation import CompiledCost, Confirmation, ConfirmedPlan, Correction
from toast.plans.tables import plain_table

_TIMES = {
    "sum": "a step is computation and then collectives",
    "makespan": "a step has asynchronous collectives beside computation",
    "estimate": "a step is predicted computation and compiled collectives",
}
"""What a time means; behind `~` it is always an estimate."""


_FUSIONS = {"contraction": "products", "other": "other fusions"}


def sentence(confirmed: Confirmation) -> str:
    """What the compiler said of the plan that was taken."""
    row = confirmed.chosen
    if row is None or row.compiled is None:
        return f"Not confirmed by the compiler for {confirmed.target}."
    cost = row.compiled
    known = [
        ""
        if (seconds := step_of(cost, confirmed)) is None
        else f"{format_seconds(seconds)} a step",
        "" if cost.peak_bytes is None else f"{format_bytes(cost.peak_bytes)} per device",
    ]
    fits = "fits" if cost.fits else "DOES NOT FIT"
    return f"Compiled for {confirmed.target}: {', '.join([*filter(None, known), fits])}."


def step_of(cost: CompiledCost, confirmed: Confirmation) -> float | None:
    """The time that plans are compared by, where the compiler gave one."""
    return cost.makespan_seconds if confirmed.time == "makespan" else cost.step_seconds


def render_confirmation(confirmed: Confirmation) -> Group:
    """Each plan that was compiled, predicted beside compiled, and what that taught."""
    title = f"Compiled by {confirmed.compiler} for {confirmed.target}; {_TIMES[confirmed.time]}"
    table = plain_table(
        title, "plan", ">step predicted", ">compiled", ">peak predicted", ">compiled", "fits", ""
    )
    for row in confirmed.plans:
        table.add_row(*_cells(row, confirmed))
    parts: list[Table | Text] = [table]
    searches = {row.search for row in confirmed.plans}
    parts += [Text(_taught(one, searches)) for one in confirmed.corrections]
    return Group(*parts)


def plan_name(row: ConfirmedPlan) -> str:
    """`answer`, `data parallel`, `choice of search 2`."""
    again = f" of search {row.search}" if row.search > 1 else ""
    return row.kind.replace("_", " ") + again


def _cells(row: ConfirmedPlan, confirmed: Confirmation) -> list[str | Text]:
    cost = row.compiled
    note = "; ".join(filter(None, ("this plan" if row.chosen else "", row.rewriting, row.note)))
    predicted = [
        format_seconds(row.predicted.step_seconds),
        format_bytes(row.predicted.peak_bytes),
    ]
    if cost is None:
        return [plan_name(row), predicted[0], "", predicted[1], "", "", Text(note)]
    return [
        plan_name(row),
        predicted[0],
        _step(cost, confirmed),
        predicted[1],
        "unknown" if cost.peak_bytes is None else format_bytes(cost.peak_bytes),
        Text("yes", style="green") if cost.fits else Text("no", style="red"),
        Text(note),
    ]


def _step(cost: CompiledCost, confirmed: Confirmation) -> str:
    """The time of a step, with a mark where the compiler did not give it."""
    seconds = step_of(cost, confirmed)
    if seconds is not None:
        return format_seconds(seconds)
    return f"~ {format_seconds(cost.estimate_seconds)}" if cost.fits else ""


def _taught(correction: Correction, searches: set[int]) -> str:
    why = {
        "refused": "the compiler refused all plans before it",
        "control": "a control was the best before it",
    }[correction.reason]
    factors = {"memory": correction.memory}
    factors |= {_FUSIONS.get(kind, kind): ratio for kind, ratio in correction.compute.items()}
    factors |= {kind.replace("_", "-"): ratio for kind, ratio in correction.collectives.items()}
    said = ", ".join(f"{name} x {ratio:.2f}" for name, ratio in factors.items())
    nothing = "" if correction.search in searches else ", and found no other plan"
    return f"Search {correction.search}, as {why}, priced {said}{nothing}."
