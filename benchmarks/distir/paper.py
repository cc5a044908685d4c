"""The paper's table 2: which way is best for its MLP of 1 billion weights, by size of the batch.

No DGX-2 is at hand, so this is simulated alone, with the figures that its makers publish.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import jax.numpy as jnp

from benchmarks.distir.grid import parse_way, ways
from benchmarks.distir.planning import Simulated, simulate_way
from benchmarks.distir.programs import mlp
from toast.costmodel.hardware.devices import find
from toast.costmodel.hardware.quantities import format_seconds

LAYERS, WIDTH, DEVICES = 16, 8192, 16
MICROBATCHES = (2, 8, 32, 128)
PUBLISHED = {128: "1/16/1/1", 2048: "2/8/1/1", 8192: "4/4/1/1", 32768: "8/2/1/1",
             131072: "16/1/1/1"}  # fmt: skip
"""By batch, the best way that table 2 says."""
DEVICE_FILE, RESULTS = "dgx2.toml", "paper/mlp-1b.json"


def simulate_paper(data: Path) -> Path:
    """Simulate all ways for each batch; returns the file that holds them."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for batch in PUBLISHED:
        program = mlp(layers=LAYERS, width=WIDTH, batch=batch, dtype=jnp.float16)
        rows = found.setdefault(str(batch), {})
        for way in ways(batch, program.layers, DEVICES, MICROBATCHES):
            simulated = simulate_way(program, way, str(data / DEVICE_FILE), None)
            rows[str(way)] = asdict(simulated)
        print(f"batch {batch}: {len(rows)} ways", file=sys.stderr)
    path = data / RESULTS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def paper_table(data: Path) -> list[str]:
    """The best way for each batch, here and in the paper, and what pure ways take."""
    found = json.loads((data / RESULTS).read_text(encoding="utf-8"))
    memory = find(str(data / DEVICE_FILE)).plannable_bytes
    lines = [
        "| batch | best here | step | best in the paper | its place here | vs D | vs T | vs P |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch, rows in found.items():
        all_ways = {way: Simulated(**row) for way, row in rows.items()}
        fitting = {way: one.seconds for way, one in all_ways.items() if one.peak_bytes <= memory}
        order = sorted(fitting, key=lambda way: fitting[way])
        best, published = order[0], PUBLISHED[int(batch)]
        place = f"{order.index(published) + 1} of {len(rows)}" if published in order else "-"
        cells = [best, format_seconds(fitting[best]), published, place, *_pure(fitting, best)]
        lines.append(f"| {int(batch):,} | " + " | ".join(cells) + " |")
    return lines


def _pure(seconds: dict[str, float], best: str) -> list[str]:
    """How much faster the best is than those of one kind of parallelism alone, which fit."""
    cells = []
    for kind in ("data", "tensor", "stages"):
        pure = [spent for way, spent in seconds.items() if getattr(parse_way(way), kind) == DEVICES]
        cells.append(f"{min(pure) / seconds[best]:.1f}x" if pure else "-")
    return cells
