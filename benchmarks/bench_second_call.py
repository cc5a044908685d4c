"""What `toast.autoshard` takes before XLA compiles, in a process whose plan is on disk already.

    python -m benchmarks.bench_second_call [--runs N] [SCRIPT ...]

Each script of `examples/training` whose libraries are there runs in processes of its own, with one
cache of plans: the first process plans, the others read the plan. Counted is all that the first
call does until XLA compiles: tracing, lowering, the key, reading the plan, building the sharded
step. Imports and XLA's compilation are not. Most of it is JAX's own tracing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

SCRIPTS = Path(__file__).parents[1] / "examples" / "training"
_CHILD = """
import json, runpy, sys, time
from toast.sharding.entry import Sharded
plan = Sharded._plan

def timed(self, call):
    clock, own = time.perf_counter(), time.process_time()
    made = plan(self, call)
    figures = [time.perf_counter() - clock, time.process_time() - own]
    print(json.dumps({"seconds": figures}), flush=True)
    return made

Sharded._plan = timed
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--runs", type=int, default=5, help="processes that read the plan")
    given = parser.parse_args()
    table = Table(
        "script", "planned", "from disk", "of one core", title="Seconds of the first call"
    )
    for script in given.scripts or sorted(SCRIPTS.glob("*_step.py")):
        with tempfile.TemporaryDirectory() as cache:
            runs = [seconds(script, cache) for _ in range(1 + given.runs)]
        done = [run for run in runs if run is not None]
        if len(done) > 1:
            best = [min(column) for column in zip(*done[1:], strict=True)]
            table.add_row(script.stem, f"{done[0][0]:.2f}", *(f"{one:.2f}" for one in best))
    Console(width=100).print(table)


def seconds(script: Path, cache: str) -> list[float] | None:
    """Seconds by the clock and of one core; None where a library is missing."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(script)],
        env=os.environ | {"XDG_CACHE_HOME": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in done.stderr:
        return None
    done.check_returncode()
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    found: list[float] = json.loads(line)["seconds"]
    return found


if __name__ == "__main__":
    main()
