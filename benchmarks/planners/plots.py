"""Step times relative to our plan's: a panel a target, a column a case, a mark a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.planners.results import Kind, Match

MARKS: dict[Kind, tuple[str, str, str]] = {
    "hand": ("by hand", "o", "tab:blue"),
    "peer": ("XLA's own auto-sharding", "D", "tab:red"),
    "other": ("our other planners", "x", "0.6"),
}
"""What each kind is called, its marker, and its colour."""

Points = dict[Kind, list[tuple[int, float]]]


def draw(matches: Sequence[Match], path: Path) -> Path | None:
    """Write an SVG of the cases in which our plan has a time; None where there are none."""
    panels: dict[str, list[Match]] = {}
    for match in matches:
        if match.ours is not None and match.ours.runs:
            panels.setdefault(match.place[0], []).append(match)
    if not panels:
        return None
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file: no date, and ids that are not drawn at random.
    mpl.rcParams["svg.hashsalt"] = "planners"
    from matplotlib import pyplot as plt

    widest = max(len(some) for some in panels.values())
    drawing, axes = plt.subplots(
        len(panels),
        1,
        figsize=(2.5 + 0.42 * widest, 4.6 * len(panels)),
        squeeze=False,
        layout="constrained",
    )
    for panel, (target, some) in zip(axes[:, 0], panels.items(), strict=True):
        _panel(panel, some)
        panel.set_title(target, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)
    return path


def points(matches: Sequence[Match]) -> Points:
    """By kind the (case number, time over ours) of every plan that runs."""
    found: Points = {kind: [] for kind in MARKS}
    for number, match in enumerate(matches):
        ours = match.ours
        if ours is None or not ours.seconds:
            continue
        for one in match.results:
            if one.kind in found and one.runs and one.seconds is not None:
                found[one.kind].append((number, one.seconds / ours.seconds))
    return found


def _panel(panel: Any, matches: Sequence[Match]) -> None:
    panel.axhline(1.0, color="black", linewidth=1.0, label="our plan")
    for kind, pairs in points(matches).items():
        label, marker, colour = MARKS[kind]
        if pairs:
            numbers, ratios = zip(*pairs, strict=True)
            panel.plot(numbers, ratios, marker, color=colour, label=label, markersize=4.5)
    panel.set_yscale("log")
    for write in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
        write("{x:g}")
    panel.set_ylabel("step time over our plan's")
    names = [f"{match.place[1]}\n{match.place[2]}" for match in matches]
    panel.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    panel.legend(fontsize=7, frameon=False)
