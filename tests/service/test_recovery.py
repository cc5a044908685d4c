"""Servers that die, pause and drain: no job is lost, none is done twice."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.service.harness import (
    Server,
    close_pipes,
    fake_engine,
    parse_events,
    read_address,
    start_process,
)


def make(tmp_path: Path, **settings: Any) -> Server:
    engine = fake_engine(tmp_path / "engine")
    return Server(tmp_path / "data", engine_command=engine, **{"drain": 1.0, **settings})


def engines_of(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    return psutil.Process(server.process.pid).children()


def wait_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_a_killed_server_finishes_its_job_after_the_restart(tmp_path: Path) -> None:
    with make(tmp_path) as server:
        job = server.submit("slow 2")["id"]
        waiting = server.submit("success")["id"]
        server.until(job, "running")
        engines = engines_of(server)
        server.kill()
        wait_gone(engines)  # they notice that their parent is gone
        server.start()
        done = server.finished(job)
        assert (done["state"], done["attempt"]) == ("succeeded", 2)
        assert (done["interruptions"], done["lost_workers"], done["failures"]) == (1, 0, 0)
        assert server.finished(waiting)["attempt"] == 1
        states = [e["data"]["state"] for e in server.events(job) if e["event"] == "state"]
        assert states == ["queued", "running", "queued", "running", "succeeded"]


def test_deaths_of_the_server_are_never_the_fault_of_a_job(tmp_path: Path) -> None:
    with make(tmp_path, max_lost=2) as server:
        job = server.submit("slow 1")["id"]
        for _ in range(3):
            server.until(job, "running")
            server.kill()
            server.start()
        done = server.finished(job)
        assert (done["state"], done["attempt"]) == ("succeeded", 4)
        assert (done["interruptions"], done["lost_workers"], done["failures"]) == (3, 0, 0)


def test_a_cancelling_job_of_a_dead_server_is_cancelled(tmp_path: Path) -> None:
    with make(tmp_path, drain=30.0) as server:
        job = server.submit("hang")["id"]
        server.until(job, "running")
        engines = engines_of(server)
        answer = server.client.post(f"/v1/jobs/{job}/cancel")
        server.kill()  # at once: an engine that is told to end does so
        assert answer.json()["state"] == "cancelling"
        for engine in engines:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ends with its parent
                engine.kill()
        server.start()
        assert server.job(job)["state"] == "cancelled"


def test_an_upload_that_a_crash_cut_off_is_swept(tmp_path: Path) -> None:
    with make(tmp_path) as server:
        module = server.upload("success")
        server.kill()
        artifacts = tmp_path / "data" / "artifacts"
        (artifacts / "incoming" / "half").write_bytes(b"ha")
        orphan = artifacts / "ff" / ("f" * 64)
        orphan.parent.mkdir(exist_ok=True)
        orphan.write_bytes(b"never recorded")
        (tmp_path / "data" / "work" / "old.1").mkdir()
        server.start()
        assert not orphan.exists()
        assert list((artifacts / "incoming").iterdir()) == []
        assert list((tmp_path / "data" / "work").iterdir()) == []
        assert server.upload("success") == module


def test_a_worker_that_was_overtaken_changes_nothing(tmp_path: Path) -> None:
    """Another server takes the job while ours is busy with it: ours is refused."""
    with make(tmp_path, lease=0.6) as server:
        job = server.submit("slow 60")["id"]
        server.until(job, "running")
        with sqlite3.connect(tmp_path / "data" / "toast.db", timeout=30) as database:
            database.execute("UPDATE jobs SET attempt = 9, owner = 'other', lease_until = 1e12")
        database.close()
        for _ in range(100):
            if "toast_stale_writes_total 1.0" in server.client.get("/metrics").text:
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the stale write was not refused")
        taken = server.job(job)
        assert (taken["state"], taken["attempt"]) == ("running", 9)
        assert "plan" not in taken["links"]
        wait_gone(engines_of(server))


def test_a_paused_server_keeps_its_own_jobs(tmp_path: Path) -> None:
    """A pause longer than the lease, with nobody else about, costs nothing."""
    with make(tmp_path, lease=0.6) as server:
        job = server.submit("slow 2.5")["id"]
        server.until(job, "running")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        server.process.send_signal(signal.SIGCONT)
        done = server.finished(job)
        assert (done["state"], done["attempt"], done["lost_workers"]) == ("succeeded", 1, 0)


def test_a_drain_lets_a_short_job_finish(tmp_path: Path) -> None:
    with make(tmp_path, drain=20.0) as server:
        job = server.submit("slow 1.5")["id"]
        waiting = server.submit("success")["id"]
        server.until(job, "running")
        server.terminate()
        assert server.wait() == 0
        server.start()
        done = server.job(job)
        assert (done["state"], done["attempt"]) == ("succeeded", 1)
        assert server.finished(waiting)["state"] == "succeeded"


def test_a_drain_gives_a_long_job_back(tmp_path: Path) -> None:
    with make(tmp_path, drain=0.5) as server:
        job = server.submit("slow 2.5")["id"]
        server.until(job, "running")
        engines = engines_of(server)
        with server.client.stream("GET", f"/v1/jobs/{job}/events") as answer:
            chunks = answer.iter_text()
            text = next(chunks)
            server.terminate()
            text += "".join(chunks)  # the stream ends; it does not hold the server up
        assert parse_events(text)
        assert server.wait() == 0
        wait_gone(engines)
        server.start()
        states = [e["data"]["state"] for e in server.events(job) if e["event"] == "state"]
        assert states == ["queued", "running", "queued", "running", "succeeded"]
        done = server.job(job)
        assert (done["lost_workers"], done["failures"]) == (0, 0)


def test_a_drain_tells_who_waits_where_to_look(tmp_path: Path) -> None:
    with make(tmp_path) as server:
        command = ["curl", "-sS", "-i", "--data-binary", "slow 60",
                   f"{server.url}/v1/plan?mesh=data=2"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
            jobs: list[dict[str, object]] = []
            while not jobs or jobs[0]["state"] != "running":
                jobs = server.client.get("/v1/jobs").json()["jobs"]
            server.terminate()
            answer, _ = waiting.communicate(timeout=30)
        assert answer.startswith("HTTP/1.1 503")
        assert f"toast-job: {jobs[0]['id']}" in answer.lower()
        assert '"code":"draining"' in answer
        assert server.wait() == 0


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    with make(tmp_path):
        command = [sys.executable, "-m", "toast.service", "--port", "0",
                   "--data", str(tmp_path / "data")]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert (done.returncode, done.stdout) == (2, "")
        assert "another service uses" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "toast.service",
        "--port",
        "0",
        "--data",
        str(tmp_path / "new"),
    ]
    process, lines = start_process(command)
    url = read_address(process, lines)
    assert url.startswith("http://127.0.0.1:")
    port = int(url.rpartition(":")[2])
    taken = subprocess.run(
        [*command[:-3], str(port), "--data", str(tmp_path / "other")],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "cannot listen" in taken.stderr
    os.kill(process.pid, number)
    assert process.wait(timeout=20) == 0
    close_pipes(process)
