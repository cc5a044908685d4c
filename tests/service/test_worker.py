"""`toast worker`: jobs of a shared ledger, run without an HTTP server beside them."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.harness import HERE, Server, close_pipes, fake_engine, start_process

STARTED = re.compile(r"TOAST worker [0-9a-f]{32} runs (\d+) at once; health on (\S+)")


class Worker:
    """A worker process on `database` and `artifacts`, with the fake engine."""

    def __init__(self, folder: Path, name: str, database: str, artifacts: str) -> None:
        arguments = {
            "data": str(folder / name),
            "store": database,
            "artifacts": artifacts,
            "engine_command": fake_engine(folder / f"engine-{name}"),
            "drain": 1.0,
            "lease": 3.0,
        }
        command = [sys.executable, str(HERE / "run_worker.py"), json.dumps(arguments)]
        self.process, self._lines = start_process(command)
        self.url = self._address()

    def _address(self) -> str:
        seen, end = [], time.monotonic() + 60
        while time.monotonic() < end:
            try:
                seen.append(self._lines.get(timeout=0.2))
            except queue.Empty:
                assert self.process.poll() is None, "".join(seen)
                continue
            if (found := STARTED.match(seen[-1])) is not None:
                return found[2]
        raise AssertionError("".join(seen))

    def probe(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=30)
        close_pipes(self.process)
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        close_pipes(self.process)


@contextmanager
def working(folder: Path, name: str, database: str, artifacts: str) -> Iterator[Worker]:
    worker = Worker(folder, name, database, artifacts)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


def idle_server(folder: Path, database: str, artifacts: str) -> Server:
    """A server whose own worker is taken by a job that never ends."""
    return Server(
        folder / "server",
        database=database,
        artifacts=artifacts,
        engine_command=fake_engine(folder / "engine"),
        drain=1.0,
        lease=3.0,
    )


def test_a_worker_runs_what_a_server_accepts(tmp_path: Path, postgres_url: str) -> None:
    artifacts = f"file://{tmp_path}/shared"
    with idle_server(tmp_path, postgres_url, artifacts) as server:
        busy = server.submit("slow 100")["id"]
        server.until(busy, "running")
        waiting = server.submit("success")["id"]
        with working(tmp_path, "one", postgres_url, artifacts) as worker:
            assert server.finished(waiting)["state"] == "succeeded"
            assert worker.probe("/healthz") == (200, "ok\n")
            assert worker.probe("/readyz") == (200, "ready\n")
            assert worker.probe("/else")[0] == 404
            assert 'toast_jobs_finished_total{state="succeeded"} 1.0' in worker.probe("/metrics")[1]
            assert worker.stop() == 0
        assert server.client.get(f"/v1/jobs/{waiting}/plan").status_code == 200


def test_a_drained_worker_gives_its_job_back(tmp_path: Path, postgres_url: str) -> None:
    artifacts = f"file://{tmp_path}/shared"
    with idle_server(tmp_path, postgres_url, artifacts) as server:
        busy = server.submit("slow 100")["id"]
        server.until(busy, "running")
        with working(tmp_path, "one", postgres_url, artifacts) as worker:
            job = server.submit("slow 60 x")["id"]
            server.until(job, "running")
            assert worker.stop() == 0
            back = server.job(job)
            assert (back["state"], back["attempt"]) == ("queued", 1)


def test_the_job_of_a_killed_worker_goes_on_elsewhere(tmp_path: Path, postgres_url: str) -> None:
    artifacts = f"file://{tmp_path}/shared"
    with idle_server(tmp_path, postgres_url, artifacts) as server:
        busy = server.submit("slow 100")["id"]
        server.until(busy, "running")
        with working(tmp_path, "one", postgres_url, artifacts) as worker:
            job = server.submit("slow 6 x")["id"]
            server.until(job, "running")
            worker.kill()
            with working(tmp_path, "two", postgres_url, artifacts):
                done = server.finished(job, seconds=60)
        assert (done["state"], done["attempt"]) == ("succeeded", 2)


@pytest.mark.parametrize(
    ("store", "artifacts", "said"),
    [
        ("sqlite:////tmp/x.db", "file:///tmp/x", "--store postgresql"),
        ("postgresql+psycopg://nobody@/x?host=/nowhere", "file:///tmp/x", "database"),
        ("nonsense", "file:///tmp/x", "--store"),
    ],
)
def test_a_worker_that_cannot_start_says_why(
    tmp_path: Path, store: str, artifacts: str, said: str
) -> None:
    command = [sys.executable, "-m", "toast", "worker", "--store", store]
    command += ["--artifacts", artifacts, "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
