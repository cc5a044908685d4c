"""Real servers on loopback, and plans for the fake engine to hand out."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from toast.plans.plan import Plan

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
START_SECONDS = 30.0
LISTENING = "TOAST service listening on "


def sample_plan() -> Plan:
    """A small plan that fits the schema."""
    cost = {
        "step_seconds": 0.25, "compute_seconds": 0.2, "communication_seconds": 0.05,
        "peak_bytes": 1 << 30, "fits": True,
    }  # fmt: skip
    return Plan.model_validate(
        {
            "schema": 2,
            "mesh": {"axes": [{"name": "data", "size": 2}]},
            "device": "tpu-v5e",
            "memory_bytes": 16 << 30,
            "module": {"sha256": "0" * 64, "ops": 1, "arguments": 1},
            "arguments": [
                {"index": 0, "name": "x", "shape": [8], "dtype": "f32", "spec": [["data"]]}
            ],
            "results": [],
            "groups": [],
            "constraints": [],
            "predicted": cost,
            "unsharded": cost | {"step_seconds": 0.5},
            "baselines": [],
            "collectives": [],
            "decisions": [],
            "search": {
                "planner": "mcts", "seed": 0, "threads": 1, "rollouts": 1, "evaluations": 1,
                "seconds": 0.1, "termination": "converged", "cost": 0.5,
            },
            "stages": {},
            "unpriced": [],
            "warnings": [],
            "versions": {},
        }
    )  # fmt: skip


def fake_engine(directory: Path) -> list[str]:
    """The command of the fake engine, with a plan of its own in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    plan = directory / "template.json"
    plan.write_text(sample_plan().to_json())
    return [sys.executable, "-S", str(HERE / "fake_engine.py"), str(plan)]


class Server:
    """A server process that can be stopped, killed and started again on the same data."""

    def __init__(
        self, data: Path, *, environment: dict[str, str] | None = None, **settings: Any
    ) -> None:
        self.data = data
        self._settings = {"backoff": 0.1, **settings}
        self._environment = environment or {}
        self.process: subprocess.Popen[str] | None = None
        self.log = ""
        self.client = httpx2.Client()

    def start(self) -> Server:
        # Without spares the only processes of a server are those of its jobs.
        arguments = json.dumps({"data": str(self.data), "spares": 0, **self._settings})
        command = [sys.executable, str(HERE / "run_server.py"), arguments]
        self.process, self.lines = start_process(command, self._environment)
        url = read_address(self.process, self.lines)
        self.client = httpx2.Client(base_url=url, timeout=60, trust_env=False)
        return self

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def kill(self) -> None:
        """As a power cut would."""
        assert self.process is not None
        self.client.close()
        self.process.kill()
        self.process.wait()
        close_pipes(self.process)

    def terminate(self) -> None:
        assert self.process is not None
        self.process.terminate()

    def wait(self, seconds: float = 90) -> int:
        assert self.process is not None
        code = self.process.wait(timeout=seconds)
        self.client.close()
        close_pipes(self.process)
        return code

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def upload(self, text: str | bytes) -> str:
        answer = self.client.post("/v1/modules", content=text)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])

    def submit(self, text: str, **fields: Any) -> dict[str, Any]:
        """Upload a module for the fake engine and queue a job for it."""
        body = {"module": self.upload(text), "mesh": "data=2", **fields}
        answer = self.client.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        return as_object(answer)

    def job(self, job_id: str) -> dict[str, Any]:
        return as_object(self.client.get(f"/v1/jobs/{job_id}"))

    def finished(self, job_id: str, seconds: float = 90) -> dict[str, Any]:
        """Wait for the end of the job by long-polling."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = as_object(self.client.get(f"/v1/jobs/{job_id}", params={"wait": 5}))
            if job["state"] in ("succeeded", "failed", "cancelled"):
                return job
        raise AssertionError(f"job did not end: {job}")

    def until(self, job_id: str, *states: str, seconds: float = 60) -> dict[str, Any]:
        """Wait until the job is in one of `states`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.job(job_id)
            if job["state"] in states:
                return job
            time.sleep(0.02)
        raise AssertionError(f"job is {job['state']}, not one of {states}")

    def until_progress(self, job_id: str, seconds: float = 60) -> None:
        """Wait until the job's engine has told something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (self.job(job_id)["progress"] or {}).get("fraction"):
                return
            time.sleep(0.02)
        raise AssertionError("the job told nothing")

    def events(self, job_id: str, last: str | None = None) -> list[dict[str, Any]]:
        """Read the event stream to its end."""
        headers = {} if last is None else {"Last-Event-ID": last}
        answer = self.client.get(f"/v1/jobs/{job_id}/events", headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")
        return parse_events(answer.text)


def as_object(answer: httpx2.Response) -> dict[str, Any]:
    value = answer.json()
    assert isinstance(value, dict)
    return value


def parse_events(text: str) -> list[dict[str, Any]]:
    """`id`, `event` and `data` of each server-sent event."""
    found = []
    for block in text.split("\n\n"):
        pairs = (line.partition(": ")[::2] for line in block.splitlines() if line[:1] != ":")
        fields: dict[str, Any] = dict(pairs)
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def start_process(
    command: list[str], environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[str], queue.Queue[str]]:
    """Start a server process; its output, both streams, comes line by line in the queue."""
    inherited = {k: v for k, v in os.environ.items() if k != "TOAST_API_KEYS"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": _python_path(), **(environment or {})},
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    return process, lines


def _python_path() -> str:
    """This checkout before all that this process was told of."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def read_address(process: subprocess.Popen[str], lines: queue.Queue[str]) -> str:
    """The URL in the line that says where the server listens."""
    seen, end = [], time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            if process.poll() is not None:
                break
            continue
        seen.append(line)
        if line.startswith(LISTENING):
            return line.removeprefix(LISTENING).strip()
    process.kill()
    process.wait()
    close_pipes(process)
    raise AssertionError("the server did not start:\n" + "".join(seen))


def close_pipes(process: subprocess.Popen[str]) -> None:
    time.sleep(0)  # the reader thread ends with the pipe
    if process.stdout is not None and process.poll() is not None:
        process.stdout.close()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:  # closed by the test
        return


def check_problem(answer: httpx2.Response, status: int, code: str, text: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = as_object(answer)
    assert set(problem) == {"type", "title", "status", "detail", "code", "hint", "instance"}
    assert (problem["code"], problem["status"]) == (code, status)
    assert problem["type"] == f"urn:toast:problem:{code}"
    assert problem["instance"] == answer.request.url.path
    assert problem["detail"].endswith((".", "!"))
    assert problem["hint"]
    assert text in problem["detail"], problem["detail"]
