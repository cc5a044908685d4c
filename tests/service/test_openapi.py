"""The service keeps to its own schema, whatever is thrown at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.service.harness import Server, as_object

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def test_every_error_is_declared_as_a_problem(server: Server) -> None:
    schema = as_object(server.client.get("/openapi.json"))
    for methods in schema["paths"].values():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["4XX"]["content"]
            assert "422" not in operation["responses"]
    body = schema["paths"]["/v1/modules"]["post"]["requestBody"]
    assert list(body["content"]) == ["application/octet-stream"]


def test_generated_requests_get_declared_answers(server: Server, tmp_path: Path) -> None:
    server.finished(server.submit("success")["id"])
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"{server.url}/openapi.json",
        "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing",
        "--max-examples", "8", "--seed", "1", "--generation-deterministic",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.client.get("/readyz").status_code == 200
