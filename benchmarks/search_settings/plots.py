"""Regret of the rounds alone and helped, a panel a setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.search_settings.summary import Experiment
from benchmarks.search_settings.variants import (
    BASE,
    FORMULAS,
    ONE_AT_A_TIME,
    VIRTUAL_LOSS,
    Variant,
    one_formula,
    one_value,
)

Points = list[tuple[float, float]]


def draw(runs: Experiment, path: Path) -> Path:
    """Write the plot."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file: no date, and ids that are not drawn at random.
    mpl.rcParams["svg.hashsalt"] = "settings"
    from matplotlib import pyplot as plt

    panels = _panels(runs)
    drawing, axes = plt.subplots(2, 4, figsize=(13, 6.4), layout="constrained", sharey=True)
    for panel, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        _panel(panel, title, lines)
    for panel in axes.flat[len(panels) :]:
        panel.set_axis_off()
    for row in axes:
        row[0].set_ylabel("regret, %")
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)
    return path


def _panels(runs: Experiment) -> dict[str, dict[str, Points]]:
    alone, helped = (replace(BASE, helpers=helpers) for helpers in (False, True))
    found: dict[str, dict[str, Points]] = {}
    for base, title in ((alone, "exploration, rounds alone"), (helped, "exploration, helped")):
        every = list(one_formula(base))
        found[title] = {
            f"{selection}, {shaping}": _points(
                runs,
                [v for v in every if (v.settings.selection, v.settings.shaping) == formula],
                "exploration",
            )
            for formula in FORMULAS
            for selection, shaping in [formula]
        }
    for name, values in ({**ONE_AT_A_TIME, "virtual_loss": VIRTUAL_LOSS}).items():
        threads = 2 if name == "virtual_loss" else 1
        found[name] = {
            label: _points(runs, one_value(replace(base, threads=threads), name, values), name)
            for label, base in (("rounds alone", alone),)
        }
    return found


def _points(runs: Experiment, variants: Any, name: str) -> Points:
    rows: list[tuple[Variant, Any]] = [(one, runs.regret(one)) for one in variants]
    return [
        (getattr(one.settings, name), 100 * found.mean) for one, found in rows if found is not None
    ]


def _panel(panel: Any, title: str, lines: dict[str, Points]) -> None:
    for label, points in lines.items():
        if points:
            panel.plot(*zip(*points, strict=True), "o-", markersize=4, label=label)
    panel.set_title(title, fontsize=10)
    places = [x for points in lines.values() for x, _ in points]
    if places and min(places) > 0 and max(places) / min(places) > 4:
        panel.set_xscale("log")
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    if any(lines.values()):
        panel.legend(fontsize=7, frameon=False)
