"""What more threads find at equal evaluations, and how long one and two take.

    python -m benchmarks.bench_threads [--seeds N] [--threads N] [MODULE ...]

For each module (StableHLO files; two examples where none is named) the tree search runs with every
seed on one thread and on several, with the same number of rollouts: the cost C(s) of the plan, in
the mean and at worst over the seeds, states priced, and the median of the seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples import gemma, mlp
from examples.forms import serialize
from toast.analysis.analyse import analyse
from toast.analysis.forms import bytecode
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.search.actions import action_space
from toast.search.kernel_cache import warm_kernels
from toast.search.mcts import search
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control

MESH, DEVICE = "data=2,model=4", "tpu-v5e"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    warm_kernels()
    columns = ("module", "threads", "mean C(s)", "worst C(s)", "states priced", "seconds")
    table = Table(*columns, title=f"{given.seeds} seeds, mesh {MESH}, {DEVICE}")
    for name, data in modules(given.modules).items():
        problem = problem_of(data)
        for threads in (1, given.threads):
            runs = [
                timed(problem, SearchSettings(seed=s, threads=threads)) for s in range(given.seeds)
            ]
            table.add_row(name, str(threads), *cells(runs))
    Console(width=100).print(table)


def modules(paths: list[Path]) -> dict[str, bytes]:
    """Modules by name: those of the files, or a small and a middling example."""
    if paths:
        return {path.stem: path.read_bytes() for path in paths}
    step = gemma.lower(gemma.PRESETS["gemma_2b"]).compiler_ir("stablehlo")
    small = serialize(mlp.make_step(mlp.PRESETS["small"]), "bytecode")
    return {"mlp small": small, "gemma_2b": bytecode(step)}


def problem_of(data: bytes) -> Problem:
    """The planning problem of a module."""
    device = find(DEVICE)
    evaluator = Evaluator(analyse(load(data).program), Mesh.parse(MESH), device)
    reward = evaluator.reward(float(device.plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


def timed(problem: Problem, settings: SearchSettings) -> tuple[Found, float]:
    """What a search finds, and its seconds."""
    started = time.perf_counter()
    return search(problem, settings, Control()), time.perf_counter() - started


def cells(runs: list[tuple[Found, float]]) -> list[str]:
    """The figures of the runs of one row."""
    costs = [found.cost for found, _ in runs]
    priced = statistics.median(found.evaluations for found, _ in runs)
    seconds = statistics.median(spent for _, spent in runs)
    return [
        f"{statistics.mean(costs):.6f}",
        f"{max(costs):.6f}",
        f"{priced:,.0f}",
        f"{seconds:.2f}",
    ]


if __name__ == "__main__":
    main()
