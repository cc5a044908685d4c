"""From module bytes to plan, stage by stage, for growing numbers of layers or given modules.

    python -m benchmarks.bench_plan [--repeats N] [MODULE ...]

Each row is a Gemma-2B training step with that many layers, or a StableHLO file, on a 2x4 mesh of
TPU v5e, planned in this process with warm kernels and a thread on every core; the figures are
medians.
"""

from __future__ import annotations

import argparse
import lzma
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples import gemma
from toast.analysis.forms import bytecode
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest
from toast.search.kernel_cache import warm_kernels

LAYERS = (2, 6, 18, 36)
LOADING = ("load.parse", "load.calls", "load.rules", "load.walk")
STAGES = (*LOADING, "analyse", "tables", "search", "explain", "write")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    given = parser.parse_args()
    warm_kernels()
    table = Table("module", "ops", *STAGES, "total s", title="Seconds by stage")
    for name, data in modules(given.modules):
        runs = [one_run(data) for _ in range(given.repeats)]
        ops = runs[0][1]
        medians = {stage: statistics.median(run[0][stage] for run in runs) for stage in runs[0][0]}
        cells = [f"{medians[stage]:.3f}" for stage in (*STAGES, "total")]
        table.add_row(name, f"{ops:,}", *cells)
    Console(width=150).print(table)


def modules(paths: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files, or of the growing models; `.xz` is unpacked."""
    for path in paths:
        data = path.read_bytes()
        yield path.name.split(".")[0], lzma.decompress(data) if path.suffix == ".xz" else data
    for layers in () if paths else LAYERS:
        config = replace(gemma.PRESETS["gemma_2b"], layers=layers)
        yield f"{layers} layers", bytecode(gemma.lower(config).compiler_ir("stablehlo"))


def one_run(data: bytes) -> tuple[dict[str, float], int]:
    """Seconds by stage of one job, and the module's ops."""
    started = time.perf_counter()
    plan = make_plan(data, PlanRequest(mesh="data=2,model=4", device="tpu-v5e")).plan
    return {**plan.stages, "total": time.perf_counter() - started}, plan.module.ops


if __name__ == "__main__":
    main()
