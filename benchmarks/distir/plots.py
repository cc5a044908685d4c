"""The plot of docs/distir.md: simulated against executed, and seconds against microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.distir.running import Record

SHOWN = "MLP, batch 256"
"""The program whose seconds are drawn against its microbatches."""


def draw(records: Sequence[Record], path: Path) -> Path:
    """Write the plot of all records."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file: no date, and ids that are not drawn at random.
    mpl.rcParams["svg.hashsalt"] = "distir"
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    _scattered(axes[0], records)
    _by_microbatches(axes[1], [record for record in records if record.program == SHOWN])
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)
    return path


def _scattered(panel: Any, records: Sequence[Record]) -> None:
    for name in dict.fromkeys(record.program for record in records):
        some = [record for record in records if record.program == name]
        panel.scatter(
            [record.simulated.seconds for record in some],
            [record.executed for record in some],
            s=14,
            label=name,
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.axline((0.1, 0.1), (1.0, 1.0), color="0.7", linewidth=0.8)
    panel.set_xlabel("seconds simulated")
    panel.set_ylabel("seconds executed")
    panel.legend(fontsize=8, frameon=False)


def _by_microbatches(panel: Any, records: Sequence[Record]) -> None:
    degrees = sorted({_degrees(record) for record in records if record.way.stages > 1})
    for number, chosen in enumerate(degrees):
        some = sorted(
            (record for record in records if _degrees(record) == chosen),
            key=lambda record: record.way.microbatches,
        )
        counts = [record.way.microbatches for record in some]
        colour = f"C{number}"
        name = "/".join(map(str, chosen))
        panel.plot(counts, [record.executed for record in some], color=colour, label=name)
        simulated = [record.simulated.seconds for record in some]
        panel.plot(counts, simulated, color=colour, linestyle=":")
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xlabel("microbatches")
    panel.set_title(f"{SHOWN}; dotted: simulated", fontsize=10)
    panel.legend(title="D/T/P", fontsize=8, frameon=False)


def _degrees(record: Record) -> tuple[int, int, int]:
    return record.way.data, record.way.tensor, record.way.stages
