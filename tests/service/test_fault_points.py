"""Struck at its worst moments the service loses nothing that it said yes to."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service import fault_points
from tests.service.harness import Server, check_problem, fake_engine

UPLOADS = ("after-write", "before-rename", "after-rename", "after-module")
SUBMITS = ("before-create", "after-create")
ENDS = ("after-claim", "before-succeed", "after-succeed")


class Struck:
    """A server with fault points, and where to arm them."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.faults = tmp_path / "faults"
        self.artifacts = tmp_path / "data" / "artifacts"
        environment = {fault_points.ENVIRONMENT: str(self.faults)}
        engine = fake_engine(tmp_path / "engine")
        self.server = Server(
            tmp_path / "data", environment=environment, engine_command=engine, **settings
        )

    def arm(self, point: str, action: str = "kill") -> None:
        fault_points.arm(self.faults, point, action)

    def restart(self) -> None:
        """It was killed where it was armed; start it again."""
        assert self.server.wait() == -signal.SIGKILL
        assert list(self.faults.iterdir()) == []
        self.server.start()

    def submit(self, module: str, key: str) -> httpx2.Response:
        body = {"module": module, "mesh": "data=2"}
        headers = {"Idempotency-Key": key}
        return self.server.client.post("/v1/jobs", json=body, headers=headers)

    def files(self) -> set[str]:
        return {path.name for path in self.artifacts.rglob("*") if path.is_file()}


def test_killed_in_an_upload_or_a_submit_it_takes_the_next_one(tmp_path: Path) -> None:
    struck = Struck(tmp_path)
    with struck.server as server:
        for point in UPLOADS:
            struck.arm(point)
            with pytest.raises(httpx2.TransportError):
                server.upload(f"success {point}")
            struck.restart()
            recorded = point == "after-module"
            assert len(struck.files()) == recorded  # no half file, and none without its row
        module = server.upload("success 1")
        for point in SUBMITS:
            struck.arm(point)
            with pytest.raises(httpx2.TransportError):
                struck.submit(module, point)
            struck.restart()
            answer = struck.submit(module, point)
            assert answer.status_code == 202
            replayed = answer.headers.get("idempotency-replayed") == "true"
            assert replayed == (point == "after-create")
            assert server.finished(answer.json()["id"])["state"] == "succeeded"
        assert len(server.client.get("/v1/jobs").json()["jobs"]) == len(SUBMITS)


def test_killed_at_the_end_of_an_attempt_it_keeps_one_result(tmp_path: Path) -> None:
    struck = Struck(tmp_path)
    with struck.server as server:
        for point in ENDS:
            module = server.upload(f"success {point}")
            struck.arm(point)
            with contextlib.suppress(httpx2.TransportError):  # it may die before it answers
                struck.submit(module, point)
            struck.restart()
            job = server.finished(struck.submit(module, point).json()["id"])
            again = point != "after-succeed"
            assert (job["state"], job["attempt"], job["interruptions"]) == (
                "succeeded", 1 + again, int(again),
            )  # fmt: skip
            states = [e["data"]["state"] for e in server.events(job["id"]) if e["event"] == "state"]
            assert states.count("succeeded") == 1
            answer = server.client.get(job["links"]["module"])
            assert answer.text == f"// sharded\nsuccess {point}"


def test_an_answer_of_the_database_that_was_lost_is_asked_for_again(tmp_path: Path) -> None:
    struck = Struck(tmp_path, lease=0.6)
    with struck.server as server:
        module = server.upload("success 1")
        struck.arm("after-create", "away")
        check_problem(struck.submit(module, "k"), 503, "database_unavailable")
        again = struck.submit(module, "k")
        assert again.headers["idempotency-replayed"] == "true"
        server.finished(again.json()["id"])
        for point, attempts in (("after-claim", 2), ("before-succeed", 1), ("after-succeed", 1)):
            struck.arm(point, "away")
            job = server.finished(server.submit(f"success {point}")["id"])
            assert (job["state"], job["attempt"], job["lost_workers"]) == (
                "succeeded", attempts, 0,
            )  # fmt: skip
        end = time.monotonic() + 5
        done = 'toast_attempts_total{outcome="done"} 4.0'  # counted a moment after the write
        while done not in (metrics := server.client.get("/metrics").text):
            assert time.monotonic() < end, metrics
            time.sleep(0.05)
        assert "toast_stale_writes_total 0.0" in metrics


def test_a_job_that_is_claimed_as_the_server_ends_is_given_back(tmp_path: Path) -> None:
    struck = Struck(tmp_path, drain=0.2)
    with struck.server as server:
        struck.arm("after-claim", "late")
        job = server.submit("slow 100")["id"]
        server.until(job, "running")
        server.terminate()
        assert server.wait(seconds=40) == 0  # the job alone takes longer
        server.start()
        assert server.until(job, "running")["attempt"] == 2
