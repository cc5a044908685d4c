"""What one module with a pipeline in it is predicted to take."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.plan import Spec
from toast.plans.record import Record
from toast.plans.tables import plain_table


class SpmdLoopFigures(Record):
    """One loop over layers on the stages.

    `seconds` are those of the loop in a step, its bubble and what it sends included; `peak_bytes`
    what a device needs while it runs, beside the arguments of the step.
    """

    name: str
    layers: int
    stage_layers: int
    ascending: bool
    seconds: float
    sent_seconds: float
    sent_bytes: int
    peak_bytes: int


class SpmdAnswer(Record):
    """One module for the whole mesh: its layouts, and what its loops take.

    `peak_bytes` are the arguments and the fullest loop on one device; what is outside the loops is
    not counted, nor its time. `left_out` are loops that stay whole on every stage, each with why.
    """

    device: str
    memory: int
    mesh: str
    stages: int
    microbatches: int
    batch_axes: tuple[str, ...]
    arguments: tuple[Spec, ...]
    results: tuple[Spec, ...]
    loops: tuple[SpmdLoopFigures, ...]
    idle: float
    argument_bytes: int
    peak_bytes: int
    fits: bool
    left_out: tuple[str, ...] = ()


def spmd_tables(answer: SpmdAnswer) -> Group:
    """The loops, and what lies on each device."""
    seconds = sum(loop.seconds for loop in answer.loops)
    table = plain_table(
        f"{answer.stages} stages, {answer.microbatches} microbatches, one module: layers take "
        f"{format_seconds(seconds)} a step, {answer.idle:.0%} of it idle",
        "loop", "direction", ">layers", ">on a stage", ">time", ">of it sending", ">needs",
    )  # fmt: skip
    for loop in answer.loops:
        table.add_row(
            loop.name or "loop",
            "first to last" if loop.ascending else "last to first",
            str(loop.layers),
            str(loop.stage_layers),
            format_seconds(loop.seconds),
            format_seconds(loop.sent_seconds),
            format_bytes(loop.peak_bytes),
        )
    left_out = [f"Left whole on every stage: {why}" for why in answer.left_out]
    return Group(table, *left_out, "", _device(answer))


def _device(answer: SpmdAnswer) -> Table:
    table = plain_table(
        f"Each device, of {format_bytes(answer.memory)} on {answer.device}",
        "mesh", "batch over", ">arguments", ">with the fullest loop", "fits",
    )  # fmt: skip
    table.add_row(
        answer.mesh,
        ", ".join(answer.batch_axes) or "no axis",
        format_bytes(answer.argument_bytes),
        format_bytes(answer.peak_bytes),
        "yes" if answer.fits else "no",
    )
    return table
