"""The process that runs planned ways on virtual devices: `executing PROGRAM FOLDER ROUNDS`.

FOLDER has a folder for each way, which `toast.run_pipeline` runs. Rounds go through all of them, so
what else the machine does hits all alike. Prints the seconds of every run as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax

from benchmarks.distir.programs import programs
from toast.stages.run import PipelineRunner


def main(arguments: list[str]) -> None:
    """Compile all, run each once unmeasured, then measure round by round."""
    name, folder, rounds = arguments[0], Path(arguments[1]), int(arguments[2])
    given = programs()[name].arguments()
    runners = {path.name: PipelineRunner(path) for path in sorted(folder.iterdir())}
    placed = {key: runner.place(given) for key, runner in runners.items()}
    seconds: dict[str, list[float]] = {key: [] for key in runners}
    for number in range(rounds + 1):
        for key, runner in runners.items():
            spent = _timed(runner, placed[key])
            if number:
                seconds[key].append(spent)
        print(f"round {number} of {rounds}", file=sys.stderr)
    print(json.dumps({"seconds": seconds, "load": os.getloadavg()}))


def _timed(runner: PipelineRunner, arguments: list[Any]) -> float:
    started = time.perf_counter()
    jax.block_until_ready(runner.step(arguments))
    return time.perf_counter() - started


if __name__ == "__main__":
    main(sys.argv[1:])
