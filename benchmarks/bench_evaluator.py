"""States priced per second on the full Gemma-2B training step, on one thread and on two.

    python -m benchmarks.bench_evaluator [--repeats N]

Prints medians and ranges: evaluations from Python one state at a time, one round of the tree search
on one thread, and the ratio of two threads to one, measured in pairs. Then where the time of one
evaluation goes, kernel by kernel.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numba import njit
from rich.console import Console
from rich.table import Table

from examples import gemma
from toast.analysis.analyse import analyse
from toast.analysis.forms import bytecode
from toast.analysis.jit import inner
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.combiner import spared
from toast.costmodel.kernels.compute import price_fusions
from toast.costmodel.kernels.evaluate import reset
from toast.costmodel.kernels.incremental import mark_changes
from toast.costmodel.kernels.memory import find_peaks
from toast.costmodel.kernels.reshard import (
    price_halos,
    price_partial_sums,
    price_reshards,
    price_unfused_sums,
)
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.tables import Scratch, Tables
from toast.search.actions import action_space
from toast.search.kernel_cache import warm_kernels
from toast.search.mcts import TreeSearch
from toast.search.neighbours import Space
from toast.search.problem import Problem, SearchSettings
from toast.search.progress import Control

STATES = 4_000
ROLLOUTS = 120_000
RUNS = 2_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    warm_kernels()
    problem = gemma_problem()
    single = [states_per_second(problem) for _ in range(repeats)]
    many = [neighbours_per_second(problem) for _ in range(repeats)]
    pairs = [(rollouts(problem, 1), rollouts(problem, 2)) for _ in range(repeats)]
    table = Table("figure", "median", "lowest", "highest", title="Gemma-2B, mesh 2x4, tpu-v5e")
    rows = {
        "states/s from scratch, one at a time from Python": single,
        "neighbours/s, many in one call": many,
        "search: evaluations/s, 1 thread": [one for one, _ in pairs],
        "search: evaluations/s, 2 threads": [two for _, two in pairs],
        "ratio of 2 threads to 1": [two / one for one, two in pairs],
    }
    for name, values in rows.items():
        cells = (statistics.median(values), min(values), max(values))
        digits = 2 if name.startswith("ratio") else 0
        table.add_row(name, *(f"{cell:,.{digits}f}" for cell in cells))
    console = Console(width=100)
    console.print(table)
    profile = Table("kernel", "microseconds", "share", title="One evaluation")
    spent = {name: seconds * 1e6 for name, seconds in kernels(problem).items()}
    for name, each in spent.items():
        profile.add_row(name, f"{each:.2f}", f"{each / sum(spent.values()):.0%}")
    console.print(profile)


def gemma_problem() -> Problem:
    """The planning problem of the full step."""
    module = gemma.lower(gemma.PRESETS["gemma_2b"]).compiler_ir("stablehlo")
    analysis = analyse(load(bytecode(module)).program)
    device = find("tpu-v5e")
    evaluator = Evaluator(analysis, Mesh.parse("data=2,model=4"), device)
    reward = evaluator.reward(float(device.plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


def states_per_second(problem: Problem) -> float:
    """Whole states priced one after another, nothing of the one before kept."""
    states = [problem.actions[i : i + 5] for i in range(len(problem.actions) - 5)]
    scratch = problem.evaluator.new_scratch()
    started = time.perf_counter()
    for index in range(STATES):
        scratch.journal.noted[4] = 0
        problem.evaluator.cost(states[index % len(states)], scratch)
    return STATES / (time.perf_counter() - started)


def neighbours_per_second(problem: Problem) -> float:
    """The states one change away from one of five actions, on one thread."""
    five = problem.actions[:5]
    states = [state for place in Space(problem).sites() for state in place.changes(five)]
    rounds = 1 + STATES // len(states)
    started = time.perf_counter()
    for _ in range(rounds):
        problem.evaluator.costs(states)
    return rounds * len(states) / (time.perf_counter() - started)


def rollouts(problem: Problem, threads: int) -> float:
    """Evaluations per second of one round of the tree search."""
    settings = replace(
        SearchSettings(), threads=threads, rollouts=ROLLOUTS, round_rollouts=ROLLOUTS
    )
    tree = TreeSearch(problem, settings, Control())
    started = time.perf_counter()
    tree.run_round()
    return tree.count_evaluations() / (time.perf_counter() - started)


def kernels(problem: Problem) -> dict[str, float]:
    """Seconds of each kernel in one evaluation from scratch: those of many runs, without Python."""
    tables, scratch = problem.evaluator.folded, problem.evaluator.new_scratch()
    problem.evaluator.cost(problem.actions[:5], scratch)
    found = {}
    for name, kernel in KERNELS.items():
        kernel(tables, scratch, 1)
        best = min(_timed(kernel, tables, scratch) for _ in range(5))
        found[name] = best / RUNS
    return found


def _timed(kernel: Callable[..., None], tables: Tables, scratch: Scratch) -> float:
    started = time.perf_counter()
    kernel(tables, scratch, RUNS)
    return time.perf_counter() - started


def _repeated(kernel: Callable[..., Any]) -> Callable[..., None]:
    def run(t: Any, s: Any, times: int) -> None:
        s.changes.stale[:] = True
        for _ in range(times):
            s.journal.noted[4] = 0
            kernel(t, s)

    compiled: Callable[..., None] = njit(nogil=True, _nrt=False)(run)
    return compiled


@inner
def _memory(t: Any, s: Any) -> float:
    find_peaks(t, s, 1.0)
    return float(s.schedule.peaks[0])


KERNELS = {
    "reset": _repeated(reset),
    "changes": _repeated(mark_changes),
    "computation": _repeated(price_fusions),
    "partial sums": _repeated(price_partial_sums),
    "stored sums": _repeated(price_unfused_sums),
    "edges": _repeated(price_reshards),
    "halos": _repeated(price_halos),
    "sums sent together": _repeated(spared),
    "memory": _repeated(_memory),
}


if __name__ == "__main__":
    main()
