"""How long a caller of the service waits from submitting a job to its first progress.

    python -m benchmarks.bench_first_progress [--jobs N] [--spares N]

A server is started, a small module uploaded, and one job at a time submitted, each when the server
is idle and its spare worker is ready. The clock runs from the call that submits to the first
progress in the event stream of the job.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil

MODULE = Path(__file__).parents[1] / "tests" / "data" / "mlp.mlir"
_LISTENING = "TOAST service listening on "


@contextmanager
def service(data: str, spares: int) -> Iterator[tuple[httpx2.Client, psutil.Process]]:
    """A service of its own, and its process."""
    command = [sys.executable, "-m", "toast.service", "--port", "0", "--data", data]
    with subprocess.Popen(
        [*command, "--spares", str(spares)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix(_LISTENING).strip()
        try:
            with httpx2.Client(base_url=url, timeout=120, trust_env=False) as client:
                yield client, psutil.Process(process.pid)
        finally:
            process.terminate()


def wait_idle(server: psutil.Process, spares: int) -> None:
    """Until the spare workers are there and have nothing more to do."""
    while True:
        workers = server.children()
        before = sum(sum(worker.cpu_times()[:2]) for worker in workers)
        time.sleep(1.0)
        after = sum(sum(worker.cpu_times()[:2]) for worker in workers)
        if len(workers) == spares and after - before < 0.02:
            return


def first_progress(client: httpx2.Client, module: str, seed: int) -> float:
    """Seconds from the submission of one job to its first progress; returns when it is over."""
    request = {"module": module, "mesh": "data=2,model=2", "rollouts": 50, "seed": seed}
    began = time.perf_counter()
    job = client.post("/v1/jobs", json=request).raise_for_status().json()["id"]
    with client.stream("GET", f"/v1/jobs/{job}/events") as answer:
        next(line for line in answer.iter_lines() if line == "event: progress")
        seconds = time.perf_counter() - began
    while not client.get(f"/v1/jobs/{job}?wait=60").json()["finished"]:
        pass
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=10, help="jobs to submit")
    parser.add_argument("--spares", type=int, default=1, help="as of the service")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data, service(data, given.spares) as (client, server):
        made = client.post("/v1/modules", content=MODULE.read_bytes()).raise_for_status()
        found = []
        for seed in range(given.jobs):
            wait_idle(server, given.spares)
            found.append(1000 * first_progress(client, made.json()["id"], seed))
    load = os.getloadavg()[0]
    sys.stdout.write(
        f"first progress after {statistics.median(found):.0f} ms (median), {max(found):.0f} ms "
        f"(most) of {len(found)} jobs; {given.spares} spares; "
        f"load {load:.1f} on {os.cpu_count()} cores\n"
    )


if __name__ == "__main__":
    main()
