"""What a pipeline is predicted to take: by stage, and by schedule."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.record import Record
from toast.plans.tables import plain_table

_SHOWN = 8


class StageFigures(Record):
    """One stage: its first layers, seconds of its work in a step, bytes on each of its devices.

    `in_flight` is for how many microbatches it keeps what its backward work reads, `idle` the part
    of the step (0 to 1) in which it computes nothing.
    """

    stage: int
    layers: list[str]
    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float
    peak_bytes: int
    in_flight: int
    idle: float


class ScheduleFigures(Record):
    """One schedule: seconds of a step, idle part of all devices, bytes of the fullest device."""

    name: str
    step_seconds: float
    idle: float
    peak_bytes: int
    fits: bool


class DegreeFigures(Record):
    """A way to use all devices, as estimated from its layers: see `docs/pipeline.md`."""

    microbatches: int
    stages: int
    mesh: str | None
    chunks: int
    schedule: str
    step_seconds: float
    idle: float
    peak_bytes: int
    fits: bool


class PipelineAnswer(Record):
    """A pipeline with the schedule that was chosen, and those that were compared with it."""

    device: str
    memory: int
    microbatches: int
    chunks: int
    mesh: str | None
    schedule: ScheduleFigures
    schedules: list[ScheduleFigures]
    stages: list[StageFigures]
    sent_bytes: int
    """From one stage to the next for a microbatch, the most of all stages."""
    planned: int
    """Modules that were planned; equal ones are planned once."""
    tried: tuple[DegreeFigures, ...] = ()
    """What was searched where the number of devices was given, or no microbatches; best first."""


def pipeline_tables(answer: PipelineAnswer) -> Group:
    """The stages, the schedules, and what else the devices could do."""
    tables: list[RenderableType] = [_stages(answer), "", _schedules(answer)]
    if answer.tried:
        tables += ["", _degrees(answer)]
    return Group(*tables)


def _degrees(answer: PipelineAnswer) -> Table:
    table = plain_table(
        f"The best {min(_SHOWN, len(answer.tried))} of {len(answer.tried)} ways to use all "
        "devices, estimated by layers",
        ">microbatches", ">stages", "mesh of a stage", "schedule", ">chunks", ">step", ">idle",
        ">fullest device", "fits",
    )  # fmt: skip
    for row in answer.tried[:_SHOWN]:
        table.add_row(
            str(row.microbatches),
            str(row.stages),
            row.mesh or "one chip",
            row.schedule,
            str(row.chunks),
            format_seconds(row.step_seconds),
            f"{row.idle:.0%}",
            format_bytes(row.peak_bytes),
            "yes" if row.fits else "no",
        )
    return table


def _stages(answer: PipelineAnswer) -> Table:
    chosen = answer.schedule
    table = plain_table(
        f"{len(answer.stages)} stages, {answer.microbatches} microbatches, {chosen.name}: "
        f"{format_seconds(chosen.step_seconds)} a step, {chosen.idle:.0%} idle",
        ">stage", "begins at", ">forward", ">backward", ">optimizer", ">in flight", ">memory",
        ">idle",
    )  # fmt: skip
    for row in answer.stages:
        table.add_row(
            str(row.stage),
            ", ".join(row.layers),
            format_seconds(row.forward_seconds),
            format_seconds(row.backward_seconds),
            format_seconds(row.optimizer_seconds),
            str(row.in_flight),
            format_bytes(row.peak_bytes),
            f"{row.idle:.0%}",
        )
    return table


def _schedules(answer: PipelineAnswer) -> Table:
    table = plain_table(
        f"Schedules, of {format_bytes(answer.memory)} on {answer.device}",
        "schedule", ">step", ">idle", ">fullest device", "fits",
    )  # fmt: skip
    for row in answer.schedules:
        table.add_row(
            row.name,
            format_seconds(row.step_seconds),
            f"{row.idle:.0%}",
            format_bytes(row.peak_bytes),
            "yes" if row.fits else "no",
        )
    return table
