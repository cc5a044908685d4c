"""A pressed program's curve as a table."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from toast.aot.pressed import PressedCurve, PressedPoint
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.plan import Plan
from toast.plans.tables import plain_table

_TIMES = (">step", ">makespan", ">slower")


def render_curve(plan: Plan, curve: PressedCurve) -> Group:
    """What is laid out with less and less room, and at what price."""
    timed = any(point.verdict.step_seconds is not None for point in curve.points)
    table = plain_table(
        f"Memory per device as a curve, compiled for {curve.target}",
        ">room",
        ">laid out",
        ">of the chip",
        ">computed again",
        *(_TIMES if timed else ()),
    )
    for point in curve.points:
        table.add_row(*_cells(point, curve), *(_times(point) if timed else ()))
    return Group(table, "", Text(_summary(plan, curve)))


def _cells(point: PressedPoint, curve: PressedCurve) -> list[str]:
    verdict, size = point.verdict, point.laid_out
    refused = " refused" if verdict.refusal else ""
    return [
        format_bytes(point.given_bytes),
        (("unknown" if size is None else format_bytes(size)) + refused).strip(),
        "" if size is None else f"{size / curve.available_bytes:.0%}",
        "" if verdict.memory is None else f"{verdict.rematerialized} ops",
    ]


def _times(point: PressedPoint) -> list[str]:
    return [
        _seconds(point.verdict.step_seconds),
        _seconds(point.verdict.makespan_seconds),
        "" if point.slower is None else f"{point.slower:+.1%}",
    ]


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_seconds(seconds)


def _summary(plan: Plan, curve: PressedCurve) -> str:
    first, least = curve.points[0], curve.least
    predicted = format_bytes(plan.predicted.peak_bytes)
    if first.laid_out is None or least.laid_out is None:
        return f"Predicted: {predicted}. The compiler refuses the program and does not say why."
    room = format_bytes(first.laid_out)
    said = f"Predicted: {predicted}. With room the compiler lays out {room}"
    if least.laid_out >= first.laid_out:
        return f"{said}, and no less when it is pressed."
    price = "" if least.slower is None else f", {least.slower:+.1%} of the time of a step"
    return f"{said}, pressed {format_bytes(least.laid_out)}{price}."
