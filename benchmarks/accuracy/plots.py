"""Predicted against compiled: a row of panels a figure, one panel a target, one colour a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import Record
from benchmarks.accuracy.statistics import QUIET, needed_bytes, step_seconds, wire_bytes
from benchmarks.accuracy.summary import by

BAND = 0.15
"""The half width of the band that is drawn around equality."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One quantity to draw: (predicted, compiled) of a case, or None where it has none."""

    name: str
    label: str
    pair: Callable[[Record], Pair | None]


def _memory(record: Record) -> Pair | None:
    needed = needed_bytes(record)
    return (record["predicted"]["peak_bytes"] / 2**20, needed / 2**20) if needed else None


def _wire(record: Record) -> Pair | None:
    moved = wire_bytes(record)
    # What is next to nothing on one side has no place on a logarithmic axis.
    return None if moved is None or min(moved) < QUIET else (moved[0] / 1e6, moved[1] / 1e6)


def _time(record: Record) -> Pair | None:
    seconds = step_seconds(record)
    return None if seconds is None else (seconds[0] * 1e3, seconds[1] * 1e3)


FIGURES = (
    Figure(name="memory", label="memory of a device, MiB", pair=_memory),
    Figure(name="wire", label="bytes on the wire of a device, MB", pair=_wire),
    Figure(name="time", label="step, ms", pair=_time),
)


def draw(records: Sequence[Record], folder: Path, prefix: str) -> list[Path]:
    """Write an SVG for each figure that has any case, `folder`/`prefix`-NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in FIGURES:
        points = _points(records, figure)
        if points:
            path = folder / f"{prefix}-{figure.name}.svg"
            _draw(points, figure, path)
            written.append(path)
    return written


Points = dict[str, dict[str, list[Pair]]]


def _points(records: Sequence[Record], figure: Figure) -> Points:
    """Pairs by target and model, without what has none."""
    found: Points = {}
    for target, some in by(list(records), "target").items():
        for model, cases in by(some, "model").items():
            pairs = [pair for case in cases if (pair := figure.pair(case)) is not None]
            if pairs:
                found.setdefault(target, {})[model] = pairs
    return found


def _draw(points: Points, figure: Figure, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file: no date, and ids that are not drawn at random.
    mpl.rcParams["svg.hashsalt"] = "accuracy"
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    models = sorted({model for panel in points.values() for model in panel})
    shades = plt.get_cmap("turbo")
    colours = {model: shades((n + 0.5) / len(models)) for n, model in enumerate(models)}
    drawing, axes = plt.subplots(
        1, len(points), figsize=(4.2 * len(points), 5.6), squeeze=False, layout="constrained"
    )
    for panel, (target, groups) in zip(axes[0], points.items(), strict=True):
        _panel(panel, groups, colours)
        panel.set_title(target, fontsize=10)
        panel.set_xlabel(f"compiled {figure.label}")
    axes[0][0].set_ylabel(f"predicted {figure.label}")
    marks = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=model)
        for model, colour in colours.items()
    ]
    drawing.legend(handles=marks, loc="outside lower center", ncols=6, fontsize=7, frameon=False)
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)


def _panel(panel: Any, groups: dict[str, list[Pair]], colours: dict[str, Any]) -> None:
    values = [value for pairs in groups.values() for pair in pairs for value in pair]
    ends = [min(values) / 1.5, max(values) * 1.5]
    panel.fill_between(
        ends,
        [(1.0 - BAND) * end for end in ends],
        [(1.0 + BAND) * end for end in ends],
        color="0.88",
        linewidth=0,
    )
    panel.plot(ends, ends, color="0.5", linewidth=0.8)
    for model, pairs in groups.items():
        predicted, compiled = zip(*pairs, strict=True)
        panel.plot(compiled, predicted, "o", markersize=3.5, alpha=0.75, color=colours[model])
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    panel.set_aspect("equal")
