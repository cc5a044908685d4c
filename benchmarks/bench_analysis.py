"""Seconds and memory of the analysis against the size of the module, beside jax's own lowering.

    python -m benchmarks.bench_analysis [--layers 2,6] [--full] [--models] [--calls]
        [--constants] [--write] [--records FILE]

Gemma-2B training steps of 2 to 200 layers (`--full`: 320, over 200,000 ops), lowered in one fresh
process and analysed in another, so that neither has anything warm and memory is that of one job.
`--models` adds the models of `examples.models` at their published sizes, `--calls` a module whose
calls unfold to 1.4 million ops, `--constants` one that holds 500 MB of numbers. `--write` renews
`docs/analysis-speed.md` and its plot. `--records` keeps what was measured, and measures only what
it does not hold yet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.analysis_child import Record
from benchmarks.analysis_report import table, write_report

LAYERS = (2, 6, 18, 36, 72, 120, 200)
FULL = (320,)
CALLS = "block_sparse:large"
CONSTANT_BYTES = 500_000_000
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print."""
    options = _options()
    console = Console(width=140)
    layers = tuple(map(int, options.layers.split(","))) if options.layers else LAYERS
    gemma = [f"gemma:{count}" for count in (*layers, *(FULL if options.full else ()))]
    names = gemma + (_models() if options.models else []) + ([CALLS] if options.calls else [])
    records = Records(options.records)
    with tempfile.TemporaryDirectory(prefix="toast-bench-") as folder:
        scratch = Path(folder) / "module"
        for name in names:
            row = records.get(name, partial(_measure, name, scratch, options.repeats))
            console.print(f"{name}: {row['ops']:,} ops")
        held = records.get("constants", partial(_constants, scratch)) if options.constants else None
    rows = [records.held[name] for name in names]
    console.print(table(rows))
    if held is not None:
        console.print(held)
    if options.write:
        write_report(ROOT / "docs", rows, held, options.repeats)


class Records:
    """Measurements by name, in a file of JSON lines where there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.held: dict[str, Record] = {row["name"]: row for row in map(json.loads, lines)}

    def get(self, name: str, measure: Callable[[], Record]) -> Record:
        """The measurement of that name, made now if need be."""
        if name not in self.held:
            self.held[name] = {"name": name, **measure()}
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps(self.held[name]) + "\n")
        return self.held[name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=1, help="the quickest of so many runs")
    parser.add_argument("--layers", help="only these numbers of layers, separated by commas")
    parser.add_argument("--records", type=Path, help="a file that keeps what was measured")
    for flag in ("full", "models", "calls", "constants", "write"):
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args()


def _models() -> list[str]:
    from examples.models import MODELS

    plain = [f"{model.name}:paper" for model in MODELS.values()]
    return plain + [f"{model.name}:paper:scan" for model in MODELS.values() if model.has_scan]


def _measure(name: str, scratch: Path, repeats: int) -> Record:
    """Lowering and analysis of one model; of several runs the quickest of each."""
    lowered = min(
        (_child("lower", name, str(scratch)) for _ in range(repeats)), key=lambda run: run["lower"]
    )
    analysed = min(
        (_child("analyse", str(scratch)) for _ in range(repeats)),
        key=lambda run: run["load"] + run["analyse"],
    )
    return {"load_average": os.getloadavg()[0], **lowered, **analysed}


def _constants(scratch: Path) -> Record:
    made = _child("constants", str(CONSTANT_BYTES), str(scratch))
    return {**made, **_child("analyse", str(scratch))}


def _child(*arguments: str) -> Record:
    command = [sys.executable, "-m", "benchmarks.analysis_child", *arguments]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, cwd=ROOT)
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return record


if __name__ == "__main__":
    main()
