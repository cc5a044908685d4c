"""Seconds to plan by stage, stacked: a panel for each form of the layers and number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.records import Record
from benchmarks.scaling.stages import GROUPS, parts

PLACES = {"layers": "layers", "devices": "devices", "sequence": "seq", "both": "seq"}
LABELS = {"layers": "layers", "devices": "devices", "seq": "sequence length"}


def draw(records: Sequence[Record], sweep: str, path: Path) -> Path:
    """Write the plot of a sweep."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file: no date, and ids that are not drawn at random.
    mpl.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot as plt

    panels = _panels(records, sweep)
    drawing, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels) + 1, 3.8), squeeze=False, layout="constrained"
    )
    for panel, (title, some) in zip(axes[0], panels.items(), strict=True):
        _panel(panel, some, PLACES[sweep])
        panel.set_title(title, fontsize=10)
    axes[0][0].set_ylabel("seconds from bytes to plan")
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=len(GROUPS), frameon=False)
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)
    return path


def _panels(records: Sequence[Record], sweep: str) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        axes = record["mesh"].count(",") + 1
        title = f"{record['form']} layers" + f", {axes} axes" * (sweep == "devices")
        found.setdefault(title, []).append(record)
    return found


def _panel(panel: Any, records: Sequence[Record], place: str) -> None:
    ordered = sorted(records, key=lambda record: int(record[place]))
    base = [0.0] * len(ordered)
    for name in GROUPS:
        heights = [parts(record)[name] for record in ordered]
        panel.bar(range(len(ordered)), heights, bottom=base, label=name, width=0.7)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    panel.set_xticks(range(len(ordered)), [f"{record[place]:,}" for record in ordered])
    panel.set_xlabel(LABELS[place])
    panel.grid(axis="y", alpha=0.3)
    panel.set_axisbelow(True)
