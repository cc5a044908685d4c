"""The plots of a plan: memory over the schedule, time by what takes it, time against memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.page.plots import BAR, FIRST, LINE, OVER, PAPER, SECOND, SOFT, Size, plain, plot
from toast.plans.costs import PredictedCost
from toast.plans.explanation import Explanation
from toast.plans.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BARS = 8
"""Bars of each kind; what follows is summed."""
MAX_LABEL = 34
_NEAR = 0.4
"""The memory is drawn where the peak reaches this part of it; below, it would flatten the plot."""
_CLOSE = 0.85
"""A peak above this part of the memory has its words above the line of the memory."""
_VISIBLE = 1e-3
"""A bar of a smaller part of the longest is none."""
_BINARY = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))
_DECIMAL = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
Bars = list[tuple[str, float]]


def memory_plot(plan: Plan, explanation: Explanation) -> Markup:
    """Bytes over the schedule, what is above the memory in red, and where the peak is."""
    peak, limit = explanation.peak, plan.memory_bytes
    unit, scale = _unit(peak.bytes, _BINARY)
    edges = np.array([*(point.position for point in explanation.timeline), peak.positions])
    sizes = np.array([point.bytes for point in explanation.timeline]) / scale

    late = peak.position > peak.positions / 2

    def draw(axes: Axes, size: Size) -> None:
        axes.stairs(sizes, edges, fill=True, color=BAR)
        axes.stairs(sizes, edges, color=FIRST, linewidth=1.2, baseline=None)
        if peak.bytes > limit:
            over = np.maximum(sizes, limit / scale)
            axes.stairs(over, edges, baseline=limit / scale, fill=True, color=OVER, alpha=0.6)
        if peak.bytes >= _NEAR * limit:
            axes.axhline(limit / scale, color=OVER, linewidth=1.2, linestyle=(0, (5, 3)))
            said, at = f"memory {format_bytes(limit)}", 0 if late else peak.positions
            _say(axes, said, at, limit / scale, color=OVER, left=not late)
        # Words on the line of the memory are hard to read.
        above = max(peak.bytes, limit) if peak.bytes >= _CLOSE * limit else peak.bytes
        axes.plot([peak.position], [peak.bytes / scale], "o", color=FIRST, markersize=5)
        where = "" if size.narrow else f" at {_cut(peak.op, 40)}"
        text = f"peak {format_bytes(peak.bytes)}{where}"
        _say(axes, text, peak.position, above / scale, left=late)
        top = max(peak.bytes, limit if peak.bytes >= _NEAR * limit else 0) / scale
        axes.set(xlim=(0, peak.positions), ylim=(0, 1.16 * top))
        axes.set(xlabel="position in the schedule", ylabel=f"{unit} on each device")
        axes.locator_params(axis="x", nbins=4 if size.narrow else 9, integer=True)
        axes.xaxis.set_major_formatter("{x:,.0f}")

    label = (
        f"Memory over {peak.positions:,} positions of the schedule: peak "
        f"{format_bytes(peak.bytes)} at {peak.op}, memory {format_bytes(limit)}."
    )
    return plot("memory", draw, label, height=3.4)


def time_plot(plan: Plan, explanation: Explanation) -> Markup:
    """Seconds of computation by kind of op, and of communication by collective."""
    compute = [(row.op, row.seconds) for row in explanation.ops]
    compute = _largest(compute, explanation.other_ops.seconds)
    sent = [
        (f"{row.kind.replace('_', '-')} {', '.join(row.axes)}", row.seconds)
        for row in sorted(plan.collectives, key=lambda row: -row.seconds)
    ]
    return _bars("time", compute, _largest(sent))


def _bars(name: str, compute: Bars, sent: Bars) -> Markup:
    rows = [*compute, *sent]
    longest = max((seconds for _, seconds in rows), default=0.0)
    unit, scale = _unit(longest, _DECIMAL)
    values = [seconds / scale for _, seconds in rows]
    colours = [FIRST] * len(compute) + [SECOND] * len(sent)
    # A gap between the two kinds.
    at = [i + (0.6 if i >= len(compute) else 0.0) for i in range(len(rows))]

    def draw(axes: Axes, size: Size) -> None:
        bars = axes.barh(at, values, color=colours, height=0.7)
        said = [format_seconds(seconds) for _, seconds in rows]
        axes.bar_label(bars, said, padding=4, fontsize=8.5)
        width = 22 if size.narrow else MAX_LABEL
        axes.set_yticks(at, [_cut(text, width) for text, _ in rows])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.spines["left"].set_visible(False)
        axes.set(xlim=(0, longest / scale * (1.3 if size.narrow else 1.1)))
        axes.set_xlabel(f"{unit} of a step")
        axes.locator_params(axis="x", nbins=4 if size.narrow else 9)

    label = "Time of a step: " + "; ".join(f"{text} {format_seconds(s)}" for text, s in rows)
    return plot(name, draw, label, height=0.75 + 0.27 * (len(rows) + 0.6))


def front_plot(plan: Plan) -> Markup:
    """The choices by time and peak, numbered as in the table; other layouts where they are near."""
    unit, scale = _unit(max(row.peak_bytes for row in plan.choices), _BINARY)
    short, second = _unit(max(row.step_seconds for row in plan.choices), _DECIMAL)
    near = [
        (baseline.name.replace("_", " "), baseline)
        for baseline in plan.baselines
        if _near(baseline, plan)
    ]

    def at(row: PredictedCost) -> tuple[float, float]:
        return row.step_seconds / second, row.peak_bytes / scale

    def draw(axes: Axes, size: Size) -> None:
        points = sorted(at(row) for row in plan.choices)
        x, y = zip(*points, strict=True)
        axes.step(x, y, where="post", color=SOFT, linewidth=0.8, zorder=1)
        for number, row in enumerate(plan.choices, 1):
            fill = FIRST if row.chosen else PAPER
            axes.plot(*at(row), "o", color=FIRST, markerfacecolor=fill, markersize=7)
            text = f"{number}, this plan" if row.chosen else f"{number}"
            _say(axes, text, *at(row), up=5)
        for name, baseline in near:
            axes.plot(*at(baseline), "s", color=SECOND, markerfacecolor=PAPER, markersize=6)
            _say(axes, name, *at(baseline), up=5, color=SECOND, left=True)
        axes.set(xlabel=f"{short} a step", ylabel=f"peak, {unit} on each device")
        axes.margins(x=0.14 if size.narrow else 0.06, y=0.14)
        low, high = axes.get_ylim()
        limit = plan.memory_bytes / scale
        if low <= limit <= high + 0.5 * (high - low):
            axes.axhline(limit, color=OVER, linewidth=1.2, linestyle=(0, (5, 3)))
            axes.set_ylim(low, max(high, limit + 0.1 * (high - low)))
            axes.text(
                0.995,
                limit,
                "memory",
                color=OVER,
                ha="right",
                va="bottom",
                fontsize=9,
                transform=axes.get_yaxis_transform(),
            )
        axes.grid(color=LINE, linewidth=0.6, alpha=0.6)
        axes.locator_params(axis="x", nbins=4 if size.narrow else 9)

    label = "Choices: " + "; ".join(
        f"{number}: {format_seconds(row.step_seconds)}, {format_bytes(row.peak_bytes)}"
        for number, row in enumerate(plan.choices, 1)
    )
    return plot("front", draw, label, height=3.6)


def _near(baseline: PredictedCost, plan: Plan) -> bool:
    """Whether a layout is no further from the front than the front is long, twice over."""
    slowest = max(row.step_seconds for row in plan.choices)
    largest = max(row.peak_bytes for row in plan.choices)
    return baseline.step_seconds <= 1.5 * slowest and baseline.peak_bytes <= 1.5 * largest


def _largest(rows: Bars, rest: float = 0.0) -> Bars:
    """The first rows that can be seen, and what the others and `rest` come to."""
    longest = max((seconds for _, seconds in rows), default=0.0)
    shown = [row for row in rows[:MAX_BARS] if row[1] >= _VISIBLE * longest]
    others = sum(seconds for _, seconds in rows[len(shown) :]) + rest
    return shown + ([("others", others)] if others > 0 else [])


def _say(
    axes: Axes,
    text: str,
    x: float,
    y: float,
    *,
    up: float = 4,
    left: bool = False,
    color: str = SOFT,
) -> None:
    """Words beside a point: above it, to its right or left."""
    side = -5 if left else 5
    axes.annotate(
        text, (x, y), xytext=(side, up), textcoords="offset points", color=color,
        ha="right" if left else "left", va="bottom", fontsize=9,
    )  # fmt: skip


def _unit(largest: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """The unit in which the largest value is at least 1, and how large that is."""
    return next((pair for pair in units if largest >= pair[1]), units[-1])


def _cut(text: str, length: int) -> str:
    text = plain(text)
    return text if len(text) <= length else text[: length - 1] + "…"
