"""From module bytes to plan, stage by stage, for growing numbers of layers.

    python -m benchmarks.bench_plan [--repeats N]

Each row is a Gemma-2B training step with that many layers on a 2x4 mesh of TPU v5e, planned in this
process with warm kernels; the figures are medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from analysis.forms import bytecode
from examples import gemma
from search.warm import warm_kernels
from toast.planning import make_plan
from toast.request import PlanRequest

LAYERS = (2, 6, 18, 36)
STAGES = ("load.parse", "load.flatten", "load.rules", "load.walk", "analyse", "tables", "search")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    warm_kernels()
    table = Table("layers", "ops", "lower s", *STAGES, "write", "total s", title="Seconds by stage")
    for layers in LAYERS:
        config = replace(gemma.PRESETS["gemma_2b"], layers=layers)
        started = time.perf_counter()
        data = bytecode(gemma.lower(config).compiler_ir("stablehlo"))
        lowering = time.perf_counter() - started
        runs = [one_run(data) for _ in range(repeats)]
        ops = runs[0][1]
        medians = {stage: statistics.median(run[0][stage] for run in runs) for stage in runs[0][0]}
        cells = [f"{medians[stage]:.3f}" for stage in (*STAGES, "write", "total")]
        table.add_row(str(layers), f"{ops:,}", f"{lowering:.2f}", *cells)
    Console(width=140).print(table)


def one_run(data: bytes) -> tuple[dict[str, float], int]:
    """Seconds by stage of one job, and the module's ops."""
    started = time.perf_counter()
    plan = make_plan(data, PlanRequest(mesh="data=2,model=4", device="tpu-v5e")).plan
    return {**plan.stages, "total": time.perf_counter() - started}, plan.module.ops


if __name__ == "__main__":
    main()
