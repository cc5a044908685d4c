"""The service keeps to its own schema, whatever is thrown at it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.harness import Server, as_object

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
PHASES = ("--phases", "examples,coverage,fuzzing")


def test_every_error_is_declared_as_a_problem(server: Server) -> None:
    schema = as_object(server.client.get("/openapi.json"))
    for methods in schema["paths"].values():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["4XX"]["content"]
            assert "422" not in operation["responses"]
    body = schema["paths"]["/v1/modules"]["post"]["requestBody"]
    assert list(body["content"]) == ["application/octet-stream"]


def run_schemathesis(schema: str, folder: Path, *options: str) -> None:
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", schema,
        "--checks", ",".join(CHECKS), "--request-timeout", "60",
        "--seed", "1", "--generation-deterministic", *options,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_generated_requests_get_declared_answers(server: Server, tmp_path: Path) -> None:
    server.finished(server.submit("success")["id"])
    run_schemathesis(f"{server.url}/openapi.json", tmp_path, *PHASES, "--max-examples", "8")
    assert server.client.get("/readyz").status_code == 200


@pytest.mark.nightly
def test_many_generated_requests_get_declared_answers(server: Server, tmp_path: Path) -> None:
    run_schemathesis(f"{server.url}/openapi.json", tmp_path, *PHASES, "--max-examples", "200")
    assert server.client.get("/readyz").status_code == 200


def test_generated_requests_of_jobs_that_exist_do_too(server: Server, tmp_path: Path) -> None:
    """Identifiers that nobody guesses are given: event streams, plans and modules are answered."""
    ended = [server.submit(words)["id"] for words in ("success", "error", "slow 0.5")]
    waiting = server.submit("slow 5")["id"]
    schema = as_object(server.client.get("/openapi.json"))
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "job_id":
                    jobs = [waiting] if method == "delete" else ended
                    parameter["schema"] = {"type": "string", "enum": jobs}
        if "{job_id}" in path:
            methods.pop("post", None)  # a cancelled job has no stream to follow
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    options = ["--url", server.url, "--include-path-regex", "job_id", "--exclude-path-regex"]
    options += ["report", "--phases", "fuzzing", "--max-examples", "4"]  # a report takes seconds
    run_schemathesis("schema.json", tmp_path, *options)
    counted = server.client.get("/metrics").text
    for route in ("events", "plan", "module"):
        wanted = f'method="GET",route="/v1/jobs/{{job_id}}/{route}",status="200"'
        assert wanted in counted, route
