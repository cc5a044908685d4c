"""`POST /v1/plan`: one call for who has only curl."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.service.harness import Server
from toast.plans.plan import Plan

PATH = "/v1/plan?mesh=data=2,model=4&device=tpu-v5e"


def test_the_sharded_module_comes_back(server: Server) -> None:
    answer = server.client.post(PATH, content=b"success")
    assert (answer.status_code, answer.content) == (200, b"// sharded\nsuccess")
    job = server.job(answer.headers["toast-job"])
    assert (job["state"], job["request"]["mesh"]) == ("succeeded", "data=2,model=4")
    assert answer.headers["toast-fits"] == "true"
    link, relation, media = answer.headers["link"].split("; ")
    assert (relation, media) == ('rel="describedby"', 'type="application/json"')
    Plan.from_json(server.client.get(link.strip("<>")).content)


def test_the_plan_comes_back_when_asked_for(server: Server) -> None:
    answer = server.client.post(PATH, content=b"success", headers={"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    Plan.from_json(answer.content)


def test_curl_alone_is_enough(server: Server, tmp_path: Path) -> None:
    module = tmp_path / "step.mlir"
    module.write_text("success")
    address = f"{server.url}/v1/plan?mesh=data=2,model=4&device=tpu-v5e"
    command = ["curl", "-sS", "--fail-with-body", "--data-binary", f"@{module}", address]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"// sharded\nsuccess")
    module.write_text("error")
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 22
    assert json.loads(done.stdout)["code"] == "invalid_module"


@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [("error", 422, "invalid_module"), ("abort", 422, "engine_crashed"),
     ("killed", 503, "worker_lost")],
)  # fmt: skip
def test_a_failure_is_the_answer(server: Server, mode: str, status: int, code: str) -> None:
    answer = server.client.post(PATH, content=mode.encode())
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert server.job(answer.headers["toast-job"])["state"] == "failed"


def test_settings_come_in_the_query(server: Server) -> None:
    answer = server.client.post(
        PATH + "&memory=8GiB&budget=2s&seed=4&rollouts=9", content=b"success"
    )
    request = server.job(answer.headers["toast-job"])["request"]
    assert (request["memory"], request["budget"]) == (8 << 30, 2.0)
    assert (request["seed"], request["rollouts"]) == (4, 9)


def test_a_caller_that_hangs_up_cancels_its_job(server: Server) -> None:
    body = b"slow 60 hang-up"
    host, port = server.client.base_url.host, server.client.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        connection.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        job = newest(server, "running")
    assert server.finished(job)["state"] == "cancelled"


def test_a_key_lets_the_job_outlive_its_caller(server: Server) -> None:
    headers = {"Idempotency-Key": "ci-7"}
    first = server.client.post(PATH, content=b"success 9", headers=headers)
    second = server.client.post(PATH, content=b"success 9", headers=headers)
    assert first.headers["toast-job"] == second.headers["toast-job"]


def newest(server: Server, state: str) -> str:
    """The id of the newest job once it is in `state`."""
    for _ in range(200):
        jobs = server.client.get("/v1/jobs?limit=1").json()["jobs"]
        if jobs and jobs[0]["state"] == state:
            return str(jobs[0]["id"])
    raise AssertionError(f"no job became {state}")
