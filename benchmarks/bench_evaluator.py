"""States priced per second on the full Gemma-2B training step, on one thread and on two.

    python -m benchmarks.bench_evaluator [--repeats N]

Prints medians and ranges: evaluations from Python one state at a time, rollouts of the tree search
on one thread, and the ratio of two threads to one, measured in pairs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from analysis.analyse import analyse
from analysis.forms import bytecode
from analysis.load import load
from costmodel.devices import find
from costmodel.evaluator import Evaluator
from costmodel.mesh import Mesh
from examples import gemma
from search.actions import action_space
from search.mcts import search
from search.problem import Problem, Settings
from search.progress import Control
from search.warm import warm_kernels

STATES = 4_000
ROLLOUTS = 12_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    warm_kernels()
    problem = gemma_problem()
    single = [states_per_second(problem) for _ in range(repeats)]
    pairs = [(rollouts(problem, 1), rollouts(problem, 2)) for _ in range(repeats)]
    table = Table("figure", "median", "lowest", "highest", title="Gemma-2B, mesh 2x4, tpu-v5e")
    rows = {
        "states/s from scratch, one at a time from Python": single,
        "search: evaluations/s, 1 thread": [one for one, _ in pairs],
        "search: evaluations/s, 2 threads": [two for _, two in pairs],
        "ratio of 2 threads to 1": [two / one for one, two in pairs],
    }
    for name, values in rows.items():
        cells = (statistics.median(values), min(values), max(values))
        digits = 2 if name.startswith("ratio") else 0
        table.add_row(name, *(f"{cell:,.{digits}f}" for cell in cells))
    Console(width=100).print(table)


def gemma_problem() -> Problem:
    """The planning problem of the full step."""
    module = gemma.lower(gemma.PRESETS["gemma_2b"]).compiler_ir("stablehlo")
    analysis = analyse(load(bytecode(module)).program)
    device = find("tpu-v5e")
    evaluator = Evaluator(analysis, Mesh.parse("data=2,model=4"), device)
    reward = evaluator.reward(float(device.plannable_bytes))
    return Problem(evaluator=evaluator, reward=reward, actions=action_space(evaluator))


def states_per_second(problem: Problem) -> float:
    """Whole states priced one after another, each from the unsharded layout."""
    states = [problem.actions[i : i + 5] for i in range(len(problem.actions) - 5)]
    started = time.perf_counter()
    for index in range(STATES):
        problem.evaluator.cost(states[index % len(states)])
    return STATES / (time.perf_counter() - started)


def rollouts(problem: Problem, threads: int) -> float:
    """Evaluations per second of one search."""
    settings = replace(Settings(), threads=threads, rollouts=ROLLOUTS, round_rollouts=ROLLOUTS)
    started = time.perf_counter()
    found = search(problem, settings, Control())
    return found.evaluations / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
