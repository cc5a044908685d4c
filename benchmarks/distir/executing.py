"""The process that runs planned ways on virtual devices: `executing PROGRAM FOLDER ROUNDS`.

FOLDER has a folder for each way, which `toast.run_pipeline` runs. Rounds go through all of them, so
what else the machine does hits all alike. Prints the seconds of every run as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.distir.programs import programs
from toast.stages.run import PipelineRunner


def main(arguments: list[str]) -> None:
    """Compile all, run each once unmeasured, then measure round by round."""
    name, folder, rounds = arguments[0], Path(arguments[1]), int(arguments[2])
    program = programs()[name]
    given = program.arguments()
    tree = jax.tree.structure(program.shapes)
    wanted = jax.tree.leaves(jax.jit(program.step)(*jax.tree.unflatten(tree, given)))
    runners = {path.name: PipelineRunner(path) for path in sorted(folder.iterdir())}
    placed = {key: runner.place(given) for key, runner in runners.items()}
    seconds: dict[str, list[float]] = {key: [] for key in runners}
    for key, runner in runners.items():
        check_results(key, runner.step(placed[key]), wanted)
    for number in range(rounds):
        for key, runner in runners.items():
            seconds[key].append(_timed(runner, placed[key]))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    print(json.dumps({"seconds": seconds, "load": os.getloadavg()}))


def check_results(way: str, made: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Refuse results that differ from those of the whole step by more than the order of sums."""
    for one, other in zip(made, wanted, strict=True):
        largest = float(np.abs(other).max())
        if not np.allclose(one, other, rtol=1e-2, atol=1e-4 * largest + 1e-6):
            raise ValueError(f"{way} computes other results.")


def _timed(runner: PipelineRunner, arguments: list[Any]) -> float:
    started = time.perf_counter()
    jax.block_until_ready(runner.step(arguments))
    return time.perf_counter() - started


if __name__ == "__main__":
    main(sys.argv[1:])
