"""Whatever comes in, a problem goes out that says what is wrong and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service.harness import Server, check_problem

UNKNOWN = "f" * 64


SETTINGS: list[tuple[dict[str, Any], int, str, str]] = [
    ({"mesh": "data=1"}, 400, "invalid_mesh", "one device"),
    ({"mesh": "data=1,model=1"}, 400, "invalid_mesh", "nothing to shard"),
    ({"mesh": "data=2,data=4"}, 400, "invalid_mesh", "named twice"),
    ({"mesh": ""}, 400, "invalid_mesh", "empty"),
    ({"mesh": "data=two"}, 400, "invalid_mesh", "data=two"),
    ({"mesh": "data=0"}, 400, "invalid_mesh", "size 0"),
    ({"mesh": "data=" + "9" * 5000}, 422, "invalid_request", "mesh"),
    ({"mesh": 5}, 422, "invalid_request", "mesh"),
    ({"mesh": "data=2@nvlink"}, 400, "invalid_mesh", "which tpu-v5e does not have"),
    ({"mesh": "data=2@"}, 400, "invalid_mesh", "no network"),
    ({"device": "tpu-v99"}, 400, "unknown_device", "tpu-v99"),
    ({"device": "/etc/hostname"}, 400, "unknown_device", "There is no device"),
    ({"device": "mine.toml"}, 400, "unknown_device", "mine.toml"),
    ({"planner": "oracle"}, 400, "invalid_request", "oracle"),
    ({"memory": "much"}, 400, "invalid_request", "much"),
    ({"memory": "0GiB"}, 400, "invalid_request", "above zero"),
    ({"memory": -1}, 422, "invalid_request", "memory"),
    ({"memory": "1e30GiB"}, 422, "invalid_request", "memory"),
    ({"memory": [1]}, 422, "invalid_request", "memory"),
    ({"budget": "soon"}, 400, "invalid_request", "soon"),
    ({"budget": 0}, 422, "invalid_request", "budget"),
    ({"budget": "48h"}, 422, "invalid_request", "budget"),
    ({"seed": -1}, 422, "invalid_request", "seed"),
    ({"seed": 2**63}, 422, "invalid_request", "seed"),
    ({"rollouts": 0}, 422, "invalid_request", "rollouts"),
    ({"threads": 10**6}, 422, "invalid_request", "threads"),
    ({"confirm": 0}, 422, "invalid_request", "confirm"),
    ({"confirm": 2, "device": "h100-80gb"}, 400, "invalid_request", "no compiler to ask"),
    ({"confirm_time": "5s"}, 400, "invalid_request", "goes with 'confirm'"),
    ({"surprise": 1}, 422, "invalid_request", "surprise"),
    ({"module": "../../etc/passwd"}, 422, "invalid_request", "module"),
    ({"module": UNKNOWN}, 422, "unknown_module", UNKNOWN),
]


@pytest.mark.parametrize(
    ("change", "status", "code", "text"), SETTINGS, ids=lambda value: str(value)[:40]
)
def test_a_job_with_a_bad_setting_is_not_queued(
    server: Server, change: dict[str, Any], status: int, code: str, text: str
) -> None:
    before = server.client.get("/v1/jobs?limit=1").json()["jobs"]
    body = {"module": server.upload("success"), "mesh": "data=2", **change}
    check_problem(server.client.post("/v1/jobs", json=body), status, code, text)
    assert server.client.get("/v1/jobs?limit=1").json()["jobs"] == before


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 422, "invalid_request"),
        ("mesh=data=1", 400, "invalid_mesh"),
        ("mesh=auto:0", 400, "invalid_mesh"),
        ("mesh=data=2&prove=perhaps", 422, "invalid_request"),
        ("mesh=data=2&prove=true&refine=true", 400, "invalid_request"),
        ("mesh=data=2,data=2", 400, "invalid_mesh"),
        ("mesh=data=2&device=abacus", 400, "unknown_device"),
        ("mesh=data=2&memory=lots", 400, "invalid_request"),
        ("mesh=data=2&seed=x", 422, "invalid_request"),
        ("mesh=data=2&color=red", 422, "invalid_request"),
    ],
)
def test_the_one_call_checks_before_it_takes_the_module(
    server: Server, query: str, status: int, code: str
) -> None:
    check_problem(server.client.post(f"/v1/plan?{query}", content=b"success"), status, code)


BODIES: list[tuple[bytes, str, str]] = [
    (b"", "application/json", "missing"),
    (b"{", "application/json", "not JSON"),
    (b"[" * 100_000, "application/json", ""),
    (b"\xff\xfe", "application/json", ""),
    (b"[]", "application/json", "body"),
    (b"null", "application/json", ""),
    (b'"text"', "application/json", "body"),
    (b"{}", "application/json", "is missing"),
    (b"{}", "text/plain", "body"),
]


@pytest.mark.parametrize(("body", "media", "text"), BODIES)
def test_bodies_that_are_no_request(server: Server, body: bytes, media: str, text: str) -> None:
    answer = server.client.post("/v1/jobs", content=body, headers={"Content-Type": media})
    assert answer.status_code in (400, 422)
    check_problem(answer, answer.status_code, answer.json()["code"], text)
    assert answer.json()["code"] == "invalid_request"


@pytest.mark.parametrize("path", ["/v1/modules", "/v1/plan?mesh=data=2"])
def test_an_empty_module_is_refused(server: Server, path: str) -> None:
    check_problem(server.client.post(path, content=b""), 400, "empty_body", "empty")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("GET", "/events"), ("GET", "/plan"), ("GET", "/module"),
        ("POST", "/cancel"), ("DELETE", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["nobody", "0" * 32, "%00", "x" * 3000])
def test_an_unknown_job_is_404(server: Server, method: str, path: str, name: str) -> None:
    answer = server.client.request(method, f"/v1/jobs/{name}{path}")
    check_problem(answer, 404, "unknown_job")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("name", ["nothing", "0" * 64, "%00", "x" * 3000])
def test_an_unknown_module_is_404(server: Server, method: str, name: str) -> None:
    answer = server.client.request(method, f"/v1/modules/{name}")
    check_problem(answer, 404, "module_not_found")


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/jobs/a/b/c", "/docs", "/v1/modules/x/y"])
def test_an_unknown_path_is_404(server: Server, path: str) -> None:
    check_problem(server.client.get(path), 404, "not_found", path)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/v1/jobs"), ("GET", "/v1/modules"), ("POST", "/healthz")]
)
def test_a_wrong_method_is_405(server: Server, method: str, path: str) -> None:
    answer = server.client.request(method, path)
    check_problem(answer, 405, "method_not_allowed", method)
    assert answer.headers["allow"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=9999", "cursor=-1", "cursor=9223372036854775808",
              "state=lost"]
)  # fmt: skip
def test_a_bad_page_is_422(server: Server, query: str) -> None:
    check_problem(server.client.get(f"/v1/jobs?{query}"), 422, "invalid_request")


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "x"])
def test_a_bad_wait_is_422(server: Server, wait: str) -> None:
    job = server.finished(server.submit("success")["id"])
    check_problem(server.client.get(f"/v1/jobs/{job['id']}?wait={wait}"), 422, "invalid_request")


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_bad_idempotency_key_is_422(server: Server, key: str) -> None:
    body = {"module": server.upload("success"), "mesh": "data=2"}
    answer = server.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})
    check_problem(answer, 422, "invalid_request", "Idempotency-Key")


def test_text_is_quoted_not_executed(server: Server) -> None:
    body = {"module": server.upload("success"), "mesh": "<script>alert(1)</script>"}
    answer = server.client.post("/v1/jobs", json=body)
    assert "<script>" in answer.json()["detail"]
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_service_went_on(server: Server) -> None:
    assert server.client.get("/readyz").text == "ready\n"
    assert server.finished(server.submit("success")["id"])["state"] == "succeeded"
    assert json.loads(server.client.get("/openapi.json").text)["info"]["title"] == "TOAST"
