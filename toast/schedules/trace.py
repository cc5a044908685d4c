"""A timeline in the form that chrome://tracing and Perfetto read, and as a drawing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toast.page.plots import BAR, FIRST, SECOND, SOFT, Size, plot
from toast.schedules.steps import Work
from toast.schedules.timeline import PipelineTimeline

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

_MICRO = 1e6
_COLOURS = {Work.FORWARD: FIRST, Work.BACKWARD: SECOND, Work.OPTIMIZER: BAR}


def chrome_trace(timeline: PipelineTimeline) -> str:
    """JSON with a row of work and a row of sending for each stage, and a curve of its memory."""
    events: list[dict[str, Any]] = []
    for stage in range(timeline.schedule.stages):
        events += _named(stage)
        for at, held in timeline.memory(stage):
            events.append(
                {"name": "memory", "ph": "C", "pid": stage, "ts": at * _MICRO,
                 "args": {"GiB": held / 2**30}}
            )  # fmt: skip
    for timed in timeline.steps:
        step = timed.step
        args = {"chunk": step.chunk, "microbatch": step.microbatch}
        events.append(_slice(timed.stage, 0, str(step), timed.start, timed.end, args))
    for sent in timeline.transfers:
        name = f"{sent.step} to stage {sent.target}"
        events.append(_slice(sent.source, 1, name, sent.start, sent.end, {"bytes": sent.bytes}))
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _named(stage: int) -> list[dict[str, Any]]:
    rows = ((0, "work"), (1, "sending"))
    return [
        {"name": "process_name", "ph": "M", "pid": stage, "args": {"name": f"stage {stage}"}},
        *(
            {"name": "thread_name", "ph": "M", "pid": stage, "tid": row, "args": {"name": name}}
            for row, name in rows
        ),
    ]


def _slice(
    stage: int, row: int, name: str, start: float, end: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": stage,
        "tid": row,
        "ts": start * _MICRO,
        "dur": (end - start) * _MICRO,
        "args": args,
    }


def timeline_plot(timeline: PipelineTimeline) -> Markup:
    """A bar for each step, a row for each stage; SVG for a page."""

    def draw(axes: Axes, _: Size) -> None:
        stages = timeline.schedule.stages
        for work, colour in _COLOURS.items():
            for stage in range(stages):
                spans = [
                    (timed.start * 1e3, (timed.end - timed.start) * 1e3)
                    for timed in timeline.of_stage(stage)
                    if timed.step.work is work
                ]
                label = str(work) if stage == 0 else None
                axes.broken_barh(
                    spans, (stage - 0.4, 0.8), facecolor=colour, edgecolor=SOFT, linewidth=0.2,
                    label=label,
                )  # fmt: skip
        axes.set_yticks(range(stages), [f"stage {stage}" for stage in range(stages)])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, borderpad=0.0
        )

    seconds, bubble = timeline.seconds, timeline.bubble
    label = f"{timeline.schedule.stages} stages for {seconds * 1e3:.3g} ms, {bubble:.0%} of it idle"
    return plot("pipeline", draw, label, height=0.6 + 0.35 * timeline.schedule.stages)
